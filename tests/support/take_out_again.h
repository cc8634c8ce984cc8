#pragma once

#include <gtest/gtest.h>

#include <stdexcept>

#include "graph/graph.h"

namespace sectionflow::testing_support {

/// Runs `change`, and has the graph take out again what it has added.
template <class Change>
void take_out_again(Graph& graph, const Change& change) {
  EXPECT_THROW(graph.all_or_nothing([&] {
    change();
    throw std::runtime_error("not meant");
  }),
               std::runtime_error);
}

}  // namespace sectionflow::testing_support
