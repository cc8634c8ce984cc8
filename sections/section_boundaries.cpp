#include "sections/section_boundaries.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "graph/ops/basic.h"

namespace sectionflow {
namespace {

bool is_at_home_elsewhere(const Value& value) { return is_variable(value) || value.node().op().is_constant; }

void check_order(const SectionMap& map, const Node& node) {
  const auto check = [&](const Node& maker, const std::string& name) {
    SF_CHECK(map.section[maker.id()] <= map.section[node.id()], ArgumentError, "section ", map.section[node.id()], ": ",
             node.label(), " needs '", name, "' of section ", map.section[maker.id()],
             "; sections must be in topological order: open the reader's section later");
  };
  for (const Value& value : possible_reads(node)) {
    if (!is_at_home_elsewhere(value)) check(value.node(), value.name());
  }
  for (const Node* control : node.control_inputs()) check(*control, control->name());
}

std::vector<Value> in_order(const std::set<Value>& values) { return {values.begin(), values.end()}; }

}  // namespace

std::vector<SectionBoundary> section_boundaries(const Graph& graph, const SectionMap& map,
                                                const std::vector<bool>& counted) {
  const auto num_sections = static_cast<std::size_t>(map.num_sections);
  std::vector<std::set<Value>> incoming(num_sections), feed(num_sections), cache(num_sections);
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    if (!counted[id]) continue;
    if (map.is_forward(id)) {
      if (map.section[id] == kOutside) continue;
      check_order(map, node);
      for (const Value& value : possible_reads(node)) {
        if (is_at_home_elsewhere(value) || map.section[value.node().id()] == map.section[id]) continue;
        incoming[static_cast<std::size_t>(map.section[id])].insert(value);
      }
      continue;
    }
    const SectionIndex reader = map.backward_run[id];
    for (const Value& value : possible_reads(node)) {
      const NodeId maker = value.node().id();
      const SectionIndex source = map.backward[maker] ? map.backward_run[maker] : map.section[maker];
      if (is_at_home_elsewhere(value) || source == reader) continue;
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
