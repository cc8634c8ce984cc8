// Scopes and owners of SharedVariables that end in other orders than usual.

#include <gtest/gtest.h>

#include <optional>
#include <utility>

#include "graph/layers.h"
#include "graph/ops/basic.h"
#include "graph/shared_variables.h"

namespace sectionflow {
namespace {

void encode(SharedVariables& shared, Value x) {
  const auto scope = shared.scope();
  dense(x, {.features = 2});
}

struct Two {
  Graph graph;
  Value x = placeholder(graph, "x", {3, 5}), z = placeholder(graph, "z", {7, 5});
  SharedVariables shared{graph, "encoder"};
};

TEST(SharedVariables, CopiesShareTheVariables) {
  Two t;
  SharedVariables copy = t.shared, moved = std::move(copy);
  encode(moved, t.x);
  const auto made = t.shared.variables();
  EXPECT_EQ(made.size(), 2U);
  encode(copy, t.z);
  EXPECT_EQ(copy.variables(), made);
}

TEST(SharedVariables, AScopeThatEndsBeforeOneWithinLeavesThatOneOpen) {
  Two t;
  SharedVariables inner(t.graph, "inner");
  std::optional<SharedScope> first(t.shared.scope()), second(inner.scope());
  first.reset();
  dense(t.x, {.features = 2});
  EXPECT_EQ(inner.variables().size(), 2U);
  EXPECT_TRUE(t.shared.variables().empty());
  second.reset();
  dense(t.x, {.features = 2});
  EXPECT_EQ(inner.variables().size(), 2U);
  EXPECT_TRUE(t.shared.variables().empty()) << "no scope is open";
}

}  // namespace
}  // namespace sectionflow
