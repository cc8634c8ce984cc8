#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"

namespace sectionflow::op_cases {

/// In what a graph that is loaded from the text of `graph` differs from it: node by node, in its collections and
/// groups, and in its own text.
std::vector<std::string> round_trip_failures(const Graph& graph);

}  // namespace sectionflow::op_cases
