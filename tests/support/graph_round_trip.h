#pragma once

#include "graph/graph.h"

namespace sectionflow::testing_support {

/// Expects that a graph loaded from the text of `graph` is the same: node by node, in its collections and groups, and
/// in its own text.
void expect_round_trip(const Graph& graph);

}  // namespace sectionflow::testing_support
