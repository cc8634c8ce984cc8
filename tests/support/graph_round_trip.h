#pragma once

#include <gtest/gtest.h>

#include "op_case/graph_round_trip.h"

namespace sectionflow::testing_support {

/// Expects that a graph loaded from the text of `graph` is the same: node by node, in its collections and groups, and
/// in its own text.
inline void expect_round_trip(const Graph& graph) {
  for (const std::string& failure : op_cases::round_trip_failures(graph)) ADD_FAILURE() << failure;
}

}  // namespace sectionflow::testing_support
