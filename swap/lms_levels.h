#pragma once

#include <vector>

#include "swap/lms_graph.h"

namespace sectionflow {

/// The categorised topological sort: all nodes by the length of the longest chain of nodes below them.
struct LmsLevels {
  std::vector<int> level;      ///< by node
  std::vector<NodeSet> nodes;  ///< by level

  int count() const { return static_cast<int>(nodes.size()); }
  int of(NodeId id) const { return level[static_cast<std::size_t>(id)]; }
  int distance(NodeId source, NodeId destination) const { return of(destination) - of(source); }
};

/// Throws: ArgumentError (SF-E011) naming a cycle.
LmsLevels lms_levels(const Graph& graph);

/// The bytes that the nodes of each level read and write.
std::vector<std::size_t> level_bytes(const LmsGraph& graph, const LmsLevels& levels);

/// The level numbers, ascending, that `options` asks to serialise. Those up to the highest level of an initialiser of a
/// variable are left out.
/// Throws: ArgumentError (SF-E110) for what is neither number nor range.
std::vector<int> serialized_levels(const LmsOptions& options, const LmsGraph& graph, const LmsLevels& levels);
/// The highest level of an operation that gives a variable its initial value; 0 without variables.
int highest_initializer_level(const Graph& graph, const LmsLevels& levels);
/// Throws: as serialized_levels.
void check_serialization(const std::vector<std::string>& entries);

/// One node after another: `before`, `after`.
using OrderEdge = std::pair<NodeId, NodeId>;
/// What makes the nodes of each chosen level follow each other by number, and the first of a level the last of the
/// level just below it, if that is chosen too. Nodes of built-in types, losses, and what follows an update stay free.
std::vector<OrderEdge> serialization_edges(const LmsGraph& graph, const LmsLevels& levels,
                                           const std::vector<int>& chosen);

}  // namespace sectionflow
