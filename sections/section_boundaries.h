#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"
#include "sections/section_map.h"

namespace sectionflow {

/// What crosses the borders of one section, each value once, in the order of creation. Variables and constants, which
/// belong to the session and the graph, do not count.
struct SectionBoundary {
  std::vector<Value> incoming;          ///< inputs of its forward operations that are made elsewhere
  std::vector<Value> tensors_to_feed;   ///< incoming, and what other sections' backward runs provide for its own
  std::vector<Value> tensors_to_cache;  ///< what its backward run keeps for the runs of others
};

/// The boundaries of all sections; nodes for which `counted` is false are passed over.
/// Throws: ArgumentError when an earlier section reads, or waits for, what a later one makes, directly or by way of
/// nodes outside of sections.
std::vector<SectionBoundary> section_boundaries(const Graph& graph, const SectionMap& map,
                                                const std::vector<bool>& counted);

}  // namespace sectionflow
