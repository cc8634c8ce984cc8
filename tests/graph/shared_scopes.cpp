// Scopes and owners of SharedVariables that end in other orders than usual, and names around them that begin alike.

#include <gtest/gtest.h>

#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "graph/layers.h"
#include "graph/ops/basic.h"
#include "graph/shared_variables.h"
#include "tests/graph/two_inputs.h"

namespace sectionflow {
namespace {

void encode_once(SharedVariables& shared, Value x) {
  const auto scope = shared.scope();
  dense(x, {.features = 2});
}

TEST(SharedVariables, CopiesShareTheVariables) {
  TwoInputs t;
  SharedVariables copy = t.shared, moved = std::move(copy);
  encode_once(moved, t.x);
  const auto made = t.shared.variables();
  EXPECT_EQ(made.size(), 2U);
  encode_once(copy, t.z);
  EXPECT_EQ(copy.variables(), made);
}

TEST(SharedVariables, AScopeThatEndsBeforeOneWithinLeavesThatOneOpen) {
  TwoInputs t;
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

/// Two layers of one kind, which are told apart by their numbers; the kernels that they read.
std::vector<std::string> kernels_of_two(SharedVariables& shared, Value x, std::string* scope_name = nullptr) {
  const auto scope = shared.scope();
  if (scope_name != nullptr) *scope_name = x.graph().scope_prefix();
  const Value first = dense(x, {.features = 5, .bias = false}), second = dense(first, {.features = 5, .bias = false});
  return {first.node().inputs()[1].name(), second.node().inputs()[1].name()};
}

TEST(SharedVariables, NamesOutsideThatBeginAlikeShiftNothing) {
  TwoInputs t;
  dense(t.x, {.features = 4, .name = "encoder/dense"});
  const std::vector<std::string> made = {"encoder_1/dense/kernel", "encoder_1/dense_1/kernel"};
  EXPECT_EQ(kernels_of_two(t.shared, t.x), made);
  dense(t.x, {.features = 4, .name = "encoder_2/dense"});
  (void)placeholder(t.graph, "encoder_3/dense/matmul", {});
  { const auto scope = t.graph.scope("encoder_4/dense_1"); }
  for (const std::string wanted : {"encoder_5/", "encoder_6/"}) {
    std::string scope_name;
    EXPECT_EQ(kernels_of_two(t.shared, t.z, &scope_name), made);
    EXPECT_EQ(scope_name, wanted);
  }
  EXPECT_EQ(t.shared.variables().size(), 2U);
}

TEST(SharedVariables, NamesThatAreTakenOutAgainAreFreeForTheNextScope) {
  TwoInputs t;
  const auto fail = [&] {
    dense(t.x, {.features = 4, .name = "encoder/dense"});
    (void)kernels_of_two(t.shared, t.x);
    throw std::runtime_error("not meant");
  };
  EXPECT_THROW(t.graph.all_or_nothing(fail), std::runtime_error);
  const std::vector<std::string> made = {"encoder/dense/kernel", "encoder/dense_1/kernel"};
  EXPECT_EQ(kernels_of_two(t.shared, t.x), made);
  EXPECT_EQ(kernels_of_two(t.shared, t.z), made);
}

}  // namespace
}  // namespace sectionflow
