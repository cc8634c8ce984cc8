#include "sections/section_map.h"

#include <algorithm>
#include <map>

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

/// Backward: made for training, or reading what was.
std::vector<bool> backward_nodes(const Graph& graph, const std::vector<std::vector<Value>>& reads) {
  std::vector<bool> backward(static_cast<std::size_t>(graph.num_nodes()), false);
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    // Constants are at home in the graph, whatever they are for.
    if (!node.op().has_kernel || node.op().is_constant) continue;
    backward[id] = node.phase() == Phase::training || node.op().recompute == Recompute::once ||
                   std::any_of(reads[id].begin(), reads[id].end(),
                               [&](const Value& value) { return backward[value.node().id()]; });
  }
  return backward;
}

/// For each variable the lowest section in whose backward run it may be read: by a recomputation or a backward node.
std::map<NodeId, SectionIndex> lowest_readers(const Graph& graph, const SectionMap& map, const std::vector<bool>& needed,
                                              const std::vector<std::vector<Value>>& reads) {
  std::map<NodeId, SectionIndex> lowest;
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    if (!needed[id]) continue;
    // What is outside of all sections runs forward only once, before any update.
    const SectionIndex run = map.backward[id]                  ? map.backward_run[id]
                             : map.section[id] != kOutside     ? map.section[id]
                                                               : map.num_sections - 1;
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
                        const std::function<std::vector<Value>(NodeId)>& reads_of) {
  std::vector<std::vector<Value>> reads(static_cast<std::size_t>(graph.num_nodes()));
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    if (needed[id]) reads[id] = reads_of(id);
  }
  SectionMap map;
  map.num_sections = static_cast<int>(groups.size());
  map.section = sections_of_nodes(graph, groups);
  map.backward = backward_nodes(graph, reads);
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    map.backward_run.push_back(map.section[id] == kOutside ? map.num_sections - 1 : map.section[id]);
  }
  // Waiting only ever moves a run down, so this ends; chains of updates may take more than one round.
  for (bool changed = true; changed;) {
    changed = false;
    const auto lowest = lowest_readers(graph, map, needed, reads);
    for (NodeId id = 0; id < graph.num_nodes(); ++id) {
      if (!needed[id] || !map.backward[id]) continue;
      const Node& node = graph.node(id);
      SectionIndex run = map.backward_run[id];
      for (const Value& value : reads[id]) {
        if (map.backward[value.node().id()]) run = std::min(run, map.backward_run[value.node().id()]);
      }
      for (const Node* control : node.control_inputs()) {
        if (map.backward[control->id()]) run = std::min(run, map.backward_run[control->id()]);
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

}  // namespace sectionflow
