#include "sections/section_map.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "graph/op_def.h"
#include "graph/ops/basic.h"

namespace sectionflow {
namespace {

std::vector<SectionIndex> sections_of_nodes(const Graph& graph, const std::vector<GroupId>& groups) {
  std::vector<SectionIndex> of_group(static_cast<std::size_t>(graph.num_groups()), kOutside);
  for (std::size_t i = 0; i < groups.size(); ++i) of_group[static_cast<std::size_t>(groups[i])] = static_cast<int>(i);
  std::vector<SectionIndex> sections;
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const GroupId group = graph.node(id).group();
    sections.push_back(group == kNoGroup ? kOutside : of_group[static_cast<std::size_t>(group)]);
  }
  return sections;
}

/// Backward: made for training, or reading or waiting for what was.
std::vector<bool> backward_nodes(const Graph& graph, const std::vector<bool>& needed,
                                 const std::vector<std::vector<Value>>& reads) {
  std::vector<bool> backward(static_cast<std::size_t>(graph.num_nodes()), false);
  const auto follows_backward = [&](const Node& node) {
    const auto& values = reads[node.id()];
    const auto& controls = node.control_inputs();
    return std::any_of(values.begin(), values.end(), [&](const Value& v) { return backward[v.node().id()]; }) ||
           std::any_of(controls.begin(), controls.end(),
                       [&](const Node* control) { return needed[control->id()] && backward[control->id()]; });
  };
  // A control edge may come from a node of a higher number: repeat until nothing changes.
  for (bool changed = true; changed;) {
    changed = false;
    for (NodeId id = 0; id < graph.num_nodes(); ++id) {
      const Node& node = graph.node(id);
      // What is given, by the session, the host or the graph, is so whatever it is for.
      if (backward[id] || node.op().is_given()) continue;
      const bool trains =
          node.op().has_kernel && (node.phase() == Phase::training || node.op().recompute == Recompute::once);
      backward[id] = trains || follows_backward(node);
      changed = changed || backward[id];
    }
  }
  return backward;
}

/// For each variable the lowest section in whose backward run it may be read: by a recomputation or a backward node.
std::map<NodeId, SectionIndex> lowest_readers(const Graph& graph, const SectionMap& map,
                                              const std::vector<bool>& needed,
                                              const std::vector<std::vector<Value>>& reads,
                                              const std::map<NodeId, SectionIndex>& executed_lower) {
  std::map<NodeId, SectionIndex> lowest;
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    if (!needed[id]) continue;
    // What is outside of all sections runs forward only once, before any update.
    SectionIndex run = map.backward[id]              ? map.backward_run[id]
                       : map.section[id] != kOutside ? map.section[id]
                                                     : map.num_sections - 1;
    if (const auto lower = executed_lower.find(id); lower != executed_lower.end()) run = std::min(run, lower->second);
    for (const Value& value : reads[id]) {
      if (!is_variable(value)) continue;
      const auto entry = lowest.emplace(value.node().id(), run).first;
      entry->second = std::min(entry->second, run);
    }
  }
  return lowest;
}

}  // namespace

std::vector<Value> possible_reads(const Node& node) {
  const std::vector<std::optional<bool>> unknown(node.inputs().size());
  const auto uses = node.op().input_uses(node.inputs().size(), unknown);
  std::vector<Value> values;
  for (std::size_t i = 0; i < uses.size(); ++i) {
    if (uses[i] != InputUse::shape_only) values.push_back(node.inputs()[i]);
  }
  return values;
}

SectionMap map_sections(const Graph& graph, const std::vector<GroupId>& groups, const std::vector<bool>& needed,
                        const std::function<std::vector<Value>(NodeId)>& reads_of,
                        const std::map<NodeId, SectionIndex>& executed_lower) {
  std::vector<std::vector<Value>> reads(static_cast<std::size_t>(graph.num_nodes()));
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    if (needed[id]) reads[id] = reads_of(id);
  }
  SectionMap map;
  map.num_sections = static_cast<int>(groups.size());
  map.section = sections_of_nodes(graph, groups);
  map.backward = backward_nodes(graph, needed, reads);
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    map.backward_run.push_back(map.section[id] == kOutside ? map.num_sections - 1 : map.section[id]);
  }
  // Waiting only ever moves a run down, so this ends; chains of updates may take more than one round.
  for (bool changed = true; changed;) {
    changed = false;
    const auto lowest = lowest_readers(graph, map, needed, reads, executed_lower);
    for (NodeId id = 0; id < graph.num_nodes(); ++id) {
      if (!needed[id] || !map.backward[id]) continue;
      const Node& node = graph.node(id);
      SectionIndex run = map.backward_run[id];
      for (const Value& value : reads[id]) {
        if (map.backward[value.node().id()]) run = std::min(run, map.backward_run[value.node().id()]);
      }
      for (const Node* control : node.control_inputs()) {
        const bool waits = needed[control->id()] && map.backward[control->id()];
        if (waits) run = std::min(run, map.backward_run[control->id()]);
      }
      for (int index : node.op().updated_inputs) {
        const auto found = lowest.find(node.inputs()[index].node().id());
        if (found != lowest.end()) run = std::min(run, found->second);
      }
      changed = changed || run != map.backward_run[id];
      map.backward_run[id] = run;
    }
  }
  return map;
}

SectionIndex evaluation_run(const SectionMap& map, Value fetch) {
  const NodeId id = fetch.node().id();
  // Before any update.
  if (is_variable(fetch)) return kForwardPass;
  if (map.backward[id]) return map.backward_run[id];
  if (map.section[id] != kOutside) return map.section[id];
  // The sections that the outside part which leads to the fetch reads from.
  SectionIndex lowest = map.num_sections;
  std::set<NodeId> seen;
  std::vector<Node*> pending = {&fetch.node()};
  while (!pending.empty()) {
    const Node& node = *pending.back();
    pending.pop_back();
    if (!seen.insert(node.id()).second) continue;
    for (const Value& input : possible_reads(node)) {
      const SectionIndex section = map.section[input.node().id()];
      // A variable belongs to the session, wherever it was made.
      if (is_variable(input)) continue;
      if (section == kOutside) {
        pending.push_back(&input.node());
      } else {
        lowest = std::min(lowest, section);
      }
    }
  }
  return lowest == map.num_sections ? kForwardPass : lowest;
}

bool is_made_of_numbers(const SectionMap& map, Value loss) {
  std::vector<std::pair<Value, bool>> open = {{loss, false}};  // and whether something larger is made of it
  std::set<std::pair<NodeId, bool>> seen;
  while (!open.empty()) {
    const auto [value, is_part_of_more] = open.back();
    open.pop_back();
    const Node& node = value.node();
    const bool is_number = value.shape().is_static() && value.shape().num_elements() == 1;
    const bool is_outside = map.section[node.id()] == kOutside, is_more = is_part_of_more || !is_number;
    if (is_more && (!is_outside || node.op().is_variable())) return false;
    if (!is_outside || !seen.emplace(node.id(), is_more).second) continue;
    for (const Value& input : node.inputs()) open.emplace_back(input, is_more);
  }
  return true;
}

}  // namespace sectionflow
