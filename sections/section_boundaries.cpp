#include "sections/section_boundaries.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "graph/op_def.h"
#include "graph/ops/basic.h"
#include "graph/traversal.h"

namespace sectionflow {
namespace {

/// For each forward node the highest section that it needs, itself or by way of nodes outside.
std::vector<SectionIndex> highest_needed(const Graph& graph, const SectionMap& map) {
  std::vector<SectionIndex> highest = map.section;
  for (NodeId id : topological_order(DependencyGraph(graph))) {
    const Node& node = graph.node(id);
    if (!map.is_forward(id) || map.section[id] != kOutside || node.op().outlives_runs()) continue;
    for (const Value& value : possible_reads(node)) {
      if (!value.node().op().outlives_runs()) highest[id] = std::max(highest[id], highest[value.node().id()]);
    }
    for (const Node* control : node.control_inputs()) highest[id] = std::max(highest[id], highest[control->id()]);
  }
  return highest;
}

/// "section 1 'head'"
std::string section_name(const Graph& graph, const SectionMap& map, SectionIndex section) {
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    if (map.section[id] != section) continue;
    const std::string& name = graph.group_name(graph.node(id).group());
    if (!name.empty()) return name;
  }
  return text_of("section ", section);
}

/// A tensor of `maker` that an operation of `reader` reads, as "section 1 reads 'relu' of section 0"; empty without
/// one.
std::string tensor_between(const Graph& graph, const SectionMap& map, SectionIndex maker, SectionIndex reader) {
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    if (map.section[id] != reader || !map.is_forward(id)) continue;
    for (const Value& value : possible_reads(graph.node(id))) {
      if (value.node().op().outlives_runs() || map.section[value.node().id()] != maker) continue;
      return text_of(section_name(graph, map, reader), " reads '", value.name(), "' of ",
                     section_name(graph, map, maker));
    }
  }
  return {};
}

void check_order(const SectionMap& map, const std::vector<SectionIndex>& highest, const Node& node) {
  const auto check = [&](const Node& maker, const std::string& name) {
    const SectionIndex needed = highest[maker.id()], reader = map.section[node.id()];
    SF_CHECK_CODE(needed <= reader, ArgumentError, ErrorCode::section_order, section_name(node.graph(), map, reader),
                  ": ", node.label(), " needs '", name, "' of ", section_name(node.graph(), map, needed),
                  "; sections must be in topological order", Fact{"reader", node.place()}, Fact{"maker", maker.place()},
                  Fact{"cycle", tensor_between(node.graph(), map, reader, needed)},
                  hint("open the reader's section later"));
  };
  for (const Value& value : possible_reads(node)) {
    if (!value.node().op().outlives_runs()) check(value.node(), value.name());
  }
  for (const Node* control : node.control_inputs()) check(*control, control->name());
}

std::vector<Value> in_order(const std::set<Value>& values) {
  return {values.begin(), values.end()};
}

}  // namespace

std::vector<SectionBoundary> section_boundaries(const Graph& graph, const SectionMap& map,
                                                const std::vector<bool>& counted) {
  const auto num_sections = static_cast<std::size_t>(map.num_sections);
  std::vector<std::set<Value>> incoming(num_sections), feed(num_sections), cache(num_sections);
  const std::vector<SectionIndex> highest = highest_needed(graph, map);
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    if (!counted[id]) continue;
    if (map.is_forward(id)) {
      if (map.section[id] == kOutside) continue;
      check_order(map, highest, node);
      for (const Value& value : possible_reads(node)) {
        if (value.node().op().outlives_runs() || map.section[value.node().id()] == map.section[id]) continue;
        incoming[static_cast<std::size_t>(map.section[id])].insert(value);
      }
      continue;
    }
    const SectionIndex reader = map.backward_run[id];
    for (const Value& value : possible_reads(node)) {
      const NodeId maker = value.node().id();
      const SectionIndex source = map.backward[maker] ? map.backward_run[maker] : map.section[maker];
      if (value.node().op().outlives_runs() || source == reader) continue;
      feed[static_cast<std::size_t>(reader)].insert(value);
      if (map.backward[maker]) cache[static_cast<std::size_t>(source)].insert(value);
    }
  }
  std::vector<SectionBoundary> boundaries;
  for (std::size_t i = 0; i < num_sections; ++i) {
    feed[i].insert(incoming[i].begin(), incoming[i].end());
    boundaries.push_back({in_order(incoming[i]), in_order(feed[i]), in_order(cache[i])});
  }
  return boundaries;
}

}  // namespace sectionflow
