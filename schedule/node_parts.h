#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/export.h"
#include "graph/node_parts.h"
#include "schedule/concrete_graph.h"
#include "schedule/schedule.h"
#include "schedule/step_kind.h"

namespace SF_API sectionflow {

/// How the node runs in parts under the graph's types; empty: not at all.
std::optional<NodeParts> parts_of_node(const ConcreteGraph& graph, NodeId id);

/// Whether a part of a node adds to what earlier ones have left (PartUse::sum): its kernel is another than the first's.
bool adds_to_sums(const ConcreteGraph& graph, NodeId id, int part);

/// The node's label, and of a part which one it is: "part 2 of 4 of softmax 'head/softmax'".
std::string label_of(const Step& step, const Graph& graph);

/// The type of what a buffer has of its value: "f32[256,50257], one of 4 parts". REQUIRES: it is no scratch.
std::string type_text(const Buffer& buffer, const ConcreteGraph& graph);

/// Strips of a list of instructions or steps: all parts of some nodes, the first parts of all of them, then the second
/// ones, and so on. By place: the number of the strip, and -1 for what is a whole. Copies between tiers may stand in
/// between.
template <class Each>
std::vector<int> strips_of(const std::vector<Each>& list) {
  std::vector<int> strips;
  int number = -1, part = 0, parts = 1;
  for (const Each& each : list) {
    const bool is_part = each.kind == StepKind::compute && each.parts > 1;
    if (is_part && (each.parts != parts || each.part < part)) ++number;
    if (is_part || each.kind == StepKind::compute) part = each.part, parts = each.parts;
    strips.push_back(is_part ? number : -1);
  }
  return strips;
}

}  // namespace sectionflow
