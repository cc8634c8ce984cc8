#pragma once

#include <vector>

#include "graph/graph.h"

namespace sectionflow {

/// The forward pass of a loss as a row of operations, each after what it depends on, and where in that row everything
/// else of the graph belongs.
struct ForwardPlaces {
  static constexpr int kNowhere = -1;

  std::vector<NodeId> operations;  ///< that the loss needs, in order; their numbers here are places
  /// By node. Of other operations, such as updates and metrics, the highest place that they read; of a variable the
  /// lowest that reads it, and so of what gives it its initial value; kNowhere for feeds, constants, and what depends
  /// on nothing.
  std::vector<int> place_of;

  int num_places() const { return static_cast<int>(operations.size()); }
};

/// Throws: ArgumentError for a cycle.
ForwardPlaces forward_places(const Graph& graph, Value loss);

}  // namespace sectionflow
