#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/export.h"
#include "schedule/concrete_graph.h"
#include "schedule/step_kind.h"

namespace SF_API sectionflow {

/// How a node runs in parts under a graph's types.
struct NodeParts {
  RowParts uses{};
  std::int64_t rows = 0;  ///< of every input and output that has rows: in equal parts of multiples of uses.block

  std::int64_t most() const { return rows / uses.block; }
  bool may_be(int parts) const { return parts > 1 && rows % parts == 0 && rows / parts % uses.block == 0; }
};

/// Empty where the node does not run in parts.
std::optional<NodeParts> parts_of_node(const ConcreteGraph& graph, NodeId id);

/// The type of one of so many equal parts.
TensorType type_of_part(const TensorType& type, int parts);

/// Whether a part of a node adds to what earlier ones have left (PartUse::sum): its kernel is another than the first's.
bool adds_to_sums(const ConcreteGraph& graph, NodeId id, int part);

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
