// Scopes of SharedVariables find what the first of them has made.

#include "graph/shared_variables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "graph/layers.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/random.h"
#include "graph/ops/unary.h"
#include "graph/parameter.h"
#include "tests/graph/description.h"
#include "tests/graph/two_inputs.h"
#include "tests/support/graph_round_trip.h"

namespace sectionflow {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;
using testing_support::description;
using testing_support::expect_round_trip;
using Names = std::vector<std::string>;

Names names_of(const std::vector<Value>& values) {
  Names names;
  for (const Value& value : values) names.push_back(value.name());
  return names;
}

/// Two dense layers without names of their own.
Value encode(SharedVariables& shared, Value x) {
  const auto scope = shared.scope();
  return dense(relu(dense(x, {.features = 4})), {.features = 2});
}

/// The kernels that two dense layers read which end in y.
std::vector<Value> kernels_below(Value y) {
  const auto kernel = [](Value sum) { return sum.node().inputs()[0].node().inputs()[1]; };
  const Value inner = y.node().inputs()[0].node().inputs()[0].node().inputs()[0];
  return {kernel(inner), kernel(y)};
}

TEST(SharedVariables, LaterScopesFindWhatTheFirstHasMade) {
  TwoInputs t;
  const Value a = encode(t.shared, t.x);
  const Names made = {"encoder/dense/kernel", "encoder/dense/bias", "encoder/dense_1/kernel", "encoder/dense_1/bias"};
  EXPECT_EQ(names_of(t.shared.variables()), made);
  for (int i = 1; i <= 3; ++i) {
    const Value b = encode(t.shared, t.z);
    EXPECT_EQ(kernels_below(b), kernels_below(a));
    EXPECT_EQ(b.name(), text_of("encoder_", i, "/dense_1/bias_add"));
  }
  EXPECT_EQ(names_of(t.graph.values(kVariables)), made);
  EXPECT_EQ(names_of(t.graph.values(kTrainableVariables)), made);
}

TEST(SharedVariables, LaterScopesCallNoInitialiserAndDrawNoOrdinal) {
  TwoInputs t;
  int calls = 0;
  const Initializer counted = [&](const InitializerRequest& r) {
    ++calls;
    return glorot_uniform()(r);
  };
  for (int i = 0; i < 3; ++i) {
    const auto scope = t.shared.scope();
    (void)dense(t.x, {.features = 4, .kernel_initializer = counted});
  }
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(random_uniform(t.graph, {2}).node().random_ordinal(), 1U);
}

TEST(SharedVariables, NamesCountAlikeInEveryScope) {
  TwoInputs t;
  std::vector<Value> first;
  for (int i = 0; i < 2; ++i) {
    const auto scope = t.shared.scope();
    // An operation and an inner scope of the names that variables have, a layer that is called like a parameter.
    (void)relu(t.x);
    std::vector<Value> asked = {parameter("kernel", zeros(), {t.graph, {2}}),
                                parameter("kernel", zeros(), {t.graph, {3}}), variable("relu", fill(t.graph, {2}, 1))};
    (void)dense(t.x, {.features = 4, .name = "kernel"});
    {
      const auto block = t.graph.scope("block");
      asked.push_back(parameter("kernel", zeros(), {t.graph, {4}}));
    }
    {
      const auto block = t.graph.scope("block");
      asked.push_back(parameter("kernel", zeros(), {t.graph, {5}}));
    }
    if (i == 0) first = asked;
    EXPECT_EQ(asked, first);
  }
  EXPECT_EQ(names_of(t.shared.variables()),
            (Names{"encoder/kernel", "encoder/kernel_1", "encoder/relu_1", "encoder/kernel_2/kernel",
                   "encoder/kernel_2/bias", "encoder/block/kernel", "encoder/block_1/kernel"}));
}

TEST(SharedVariables, ALaterScopeMayAskForAPart) {
  TwoInputs t;
  (void)encode(t.shared, t.x);
  {
    const auto scope = t.shared.scope();
    (void)dense(t.x, {.features = 4});
  }
  (void)encode(t.shared, t.x);
  EXPECT_EQ(t.graph.values(kVariables).size(), 4U);
}

TEST(SharedVariables, WhatIsNotThereOrOtherwiseIsRefused) {
  TwoInputs t;
  (void)encode(t.shared, t.x);
  const auto refused = [&](const std::function<void()>& call, const auto& text) {
    const auto before = description(t.graph);
    const auto scope = t.shared.scope();
    EXPECT_THAT(
        call, ThrowsMessage<ArgumentError>(AllOf(HasSubstr("SF-E015"), HasSubstr("shared variables 'encoder'"), text)));
    EXPECT_EQ(description(t.graph), before);
  };
  refused(
      [&] { (void)dense(t.x, {.features = 4, .name = "dens"}); },
      AllOf(HasSubstr("the first scope has made no 'dens/kernel', asked for as [5,4]; it has 'dense/kernel' f32[5,4]"),
            HasSubstr("earlier: the first scope, shared_variables.cpp:")));
  refused([&] { (void)dense(t.x, {.features = 3}); },
          AllOf(HasSubstr("'dense/kernel' is asked for as [5,3]; the first scope has made it as [5,4]"),
                HasSubstr("earlier: 'encoder/dense/kernel', shared_variables.cpp:")));
  const auto in_dense = [&] { return t.graph.scope("dense"); };
  refused(
      [&] {
        const auto scope = in_dense();
        (void)parameter("bias", zeros(), {t.graph, {4}}, {.trainable = false});
      },
      HasSubstr("'dense/bias' is asked for as [4] (not trained); the first scope has made it as [4]"));
  Graph other;
  SharedVariables of_other(other, "encoder");
  for (const Dtype dtype : {Dtype::f32, Dtype::i64}) {
    const Value initial = fill(other, {2}, 1, dtype);
    const auto scope = of_other.scope();
    if (dtype == Dtype::f32) {
      (void)variable("w", initial);
    } else {
      EXPECT_THAT(
          ([&] { (void)variable("w", initial); }),
          ThrowsMessage<ArgumentError>(HasSubstr("'w' is asked for as i64[2]; the first scope has made it as f32[2]")));
    }
  }
}

TEST(SharedVariables, ARefusedLayerMayBeAskedForAgain) {
  TwoInputs t;
  const Value a = encode(t.shared, t.x);
  const auto scope = t.shared.scope();
  EXPECT_THROW((void)dense(t.x, {.features = 3}), ArgumentError);
  // Found the kernel, then met a bias that is not there.
  EXPECT_THROW((void)t.graph.all_or_nothing([&] {
    (void)dense(t.x, {.features = 4});
    throw std::runtime_error("not meant");
  }),
               std::runtime_error);
  const Value b = dense(relu(dense(t.x, {.features = 4})), {.features = 2});
  EXPECT_EQ(kernels_below(b), kernels_below(a));
}

TEST(SharedVariables, ScopesOfOneDoNotNest) {
  TwoInputs t;
  const auto scope = t.shared.scope();
  const auto before = t.graph.scope_names();
  EXPECT_THAT(
      ([&] { (void)t.shared.scope(); }),
      ThrowsMessage<ArgumentError>(AllOf(HasSubstr("SF-E015"), HasSubstr("scope() within a scope of its own"))));
  EXPECT_EQ(t.graph.scope_names(), before);
}

// ---- One within the other.

TEST(SharedVariables, OneThatIsMadeInEveryScopeOfAnotherFindsWhatThatHas) {
  TwoInputs t;
  const auto tower = [&](Value x) {
    const auto scope = t.shared.scope();
    SharedVariables cell(t.graph, "cell");
    for (int step = 0; step < 3; ++step) {
      const auto inner = cell.scope();
      x = dense(x, {.features = 5});
    }
    EXPECT_EQ(names_of(cell.variables()), (Names{"encoder/cell/dense/kernel", "encoder/cell/dense/bias"}));
    return dense(x, {.features = 2});
  };
  (void)tower(t.x);
  (void)tower(t.z);
  const Names made = {"encoder/cell/dense/kernel", "encoder/cell/dense/bias", "encoder/dense/kernel",
                      "encoder/dense/bias"};
  EXPECT_EQ(names_of(t.graph.values(kVariables)), made);
  EXPECT_EQ(names_of(t.shared.variables()), made);
}

TEST(SharedVariables, OneThatOutlivesTheScopesOfAnotherKeepsItsOwn) {
  TwoInputs t;
  SharedVariables cell(t.graph, "cell");
  const auto step = [&](Value x) {
    const auto inner = cell.scope();
    return dense(x, {.features = 5});
  };
  Value x = step(t.x);
  for (int i = 0; i < 2; ++i) {
    const auto scope = t.shared.scope();
    x = dense(step(x), {.features = 5});
  }
  EXPECT_EQ(names_of(cell.variables()), (Names{"cell/dense/kernel", "cell/dense/bias"}));
  EXPECT_EQ(names_of(t.shared.variables()), (Names{"encoder/dense/kernel", "encoder/dense/bias"}));
  EXPECT_EQ(t.graph.values(kVariables).size(), 4U);
}

// ---- Other values in their place.

TEST(SharedVariables, OthersMayStandForThem) {
  TwoInputs t;
  (void)encode(t.shared, t.x);
  const Value kernel = t.shared.variables()[0];
  const Value half = kernel * 0.5F;
  Value y;
  {
    const auto scope = t.shared.scope([&](Value variable) { return variable == kernel ? half : variable; });
    y = dense(relu(dense(t.x, {.features = 4})), {.features = 2});
  }
  EXPECT_EQ(kernels_below(y), (std::vector<Value>{half, t.shared.variables()[2]}));
  // For that scope alone.
  EXPECT_EQ(kernels_below(encode(t.shared, t.x))[0], kernel);
}

TEST(SharedVariables, TheInnermostScopeThatHasAVariableSaysWhatStandsForIt) {
  TwoInputs t;
  SharedVariables cell(t.graph, "cell");
  std::vector<Value> seen;
  const auto tower = [&](SharedScope scope, const SharedVariables::Instead& instead) {
    const SharedScope outer = std::move(scope);
    const auto inner = instead ? cell.scope(instead) : cell.scope();
    seen.push_back(parameter("w", zeros(), {t.graph, {2}}));
  };
  tower(t.shared.scope(), nullptr);
  const Value w = cell.variables().at(0), outer = neg(w), inner = neg(w);
  const auto give = [](Value value) { return [=](Value) { return value; }; };
  tower(t.shared.scope(), nullptr);
  tower(t.shared.scope(give(outer)), nullptr);
  tower(t.shared.scope(give(outer)), give(inner));
  EXPECT_EQ(seen, (std::vector<Value>{w, w, outer, inner}));
  EXPECT_EQ(cell.variables(), std::vector<Value>{w});
}

TEST(SharedVariables, WhatCannotStandForAVariableIsRefused) {
  TwoInputs t;
  const auto same = [](Value variable) { return variable; };
  EXPECT_THAT(([&] { (void)t.shared.scope(same); }),
              ThrowsMessage<ArgumentError>(AllOf(HasSubstr("SF-E015"), HasSubstr("there are none yet"))));
  (void)encode(t.shared, t.x);
  Graph other;
  const Value foreign = placeholder(other, "foreign", {5, 4});
  const std::vector<std::pair<Value, std::string>> wrong = {
      {Value(), "got no value instead of 'encoder/dense/kernel' f32[5,4]"},
      {t.x, "got 'x' f32[3,5] instead of 'encoder/dense/kernel' f32[5,4]"},
      {foreign, "got 'foreign' of another graph"}};
  for (const auto& [value, text] : wrong) {
    const auto scope = t.shared.scope([value = value](Value) { return value; });
    EXPECT_THAT(([&] { (void)dense(t.x, {.features = 4}); }),
                ThrowsMessage<ArgumentError>(AllOf(HasSubstr("SF-E015"), HasSubstr(text))));
  }
}

TEST(SharedVariables, NoMovingAverageIsUpdatedWhereOthersStandForVariables) {
  TwoInputs t;
  const auto norm = [&](SharedScope scope) {
    const SharedScope open = std::move(scope);
    return batch_norm(t.x, {.name = "bn"});
  };
  (void)norm(t.shared.scope());
  (void)norm(t.shared.scope());
  const auto updates = t.graph.operations(kUpdateOperations);
  ASSERT_EQ(updates.size(), 4U);
  EXPECT_EQ(updates[0].node().inputs()[0], updates[2].node().inputs()[0]);
  EXPECT_EQ(t.shared.variables().size(), 4U);
  (void)norm(t.shared.scope([](Value variable) { return variable; }));
  EXPECT_EQ(t.graph.operations(kUpdateOperations).size(), 4U);
}

// ---- What goes wrong on the way.

TEST(SharedVariables, AFirstScopeThatAnExceptionLeavesIsNotRemembered) {
  TwoInputs t;
  const auto fail = [&] {
    const auto scope = t.shared.scope();
    (void)dense(t.x, {.features = 9});
    throw std::runtime_error("not meant");
  };
  EXPECT_THROW(fail(), std::runtime_error);
  EXPECT_TRUE(t.shared.variables().empty());
  EXPECT_THROW(t.graph.all_or_nothing(fail), std::runtime_error);
  EXPECT_TRUE(t.shared.variables().empty());
  const Value a = encode(t.shared, t.x);
  EXPECT_EQ(kernels_below(encode(t.shared, t.x)), kernels_below(a));
  EXPECT_EQ(t.shared.variables().front().name(), "encoder_1/dense/kernel");
}

TEST(SharedVariables, AFirstScopeThatIsTakenOutAgainIsNotRemembered) {
  TwoInputs t;
  const auto before = description(t.graph);
  const auto fail = [&] {
    (void)encode(t.shared, t.x);
    (void)encode(t.shared, t.x);
    EXPECT_EQ(t.shared.variables().size(), 4U);
    throw std::runtime_error("not meant");
  };
  EXPECT_THROW(t.graph.all_or_nothing(fail), std::runtime_error);
  EXPECT_EQ(description(t.graph), before);
  EXPECT_TRUE(t.shared.variables().empty());
  const Value a = encode(t.shared, t.x);
  EXPECT_EQ(t.shared.variables().front().name(), "encoder/dense/kernel");
  EXPECT_EQ(kernels_below(encode(t.shared, t.x)), kernels_below(a));
  // A later scope that is taken out leaves the first.
  EXPECT_THROW(t.graph.all_or_nothing(fail), std::runtime_error);
  EXPECT_EQ(t.shared.variables().size(), 4U);
  EXPECT_EQ(kernels_below(encode(t.shared, t.x)), kernels_below(a));
}

TEST(SharedVariables, ALayerThatIsTakenOutOfTheFirstScopeIsForgottenAlone) {
  TwoInputs t;
  {
    const auto scope = t.shared.scope();
    (void)dense(t.x, {.features = 4});
    EXPECT_THROW(t.graph.all_or_nothing([&] {
      (void)dense(t.x, {.features = 9});
      throw std::runtime_error("not meant");
    }),
                 std::runtime_error);
    (void)dense(t.x, {.features = 2});
  }
  EXPECT_EQ(names_of(t.shared.variables()),
            (Names{"encoder/dense/kernel", "encoder/dense/bias", "encoder/dense_1/kernel", "encoder/dense_1/bias"}));
  EXPECT_EQ(t.shared.variables()[2].type().text(), "f32[5,2]");
}

TEST(SharedVariables, MayGoBeforeTheChangeInWhichTheyWereMadeIsTakenBack) {
  Graph graph;
  const Value x = placeholder(graph, "x", {3, 5});
  const auto before = description(graph);
  const auto fail = [&] {
    {
      SharedVariables shared(graph, "encoder");
      (void)encode(shared, x);
    }
    throw std::runtime_error("not meant");
  };
  EXPECT_THROW(graph.all_or_nothing(fail), std::runtime_error);
  EXPECT_EQ(description(graph), before);
}

// ---- With other parts of a graph.

TEST(SharedVariables, StayF32WhereLayersComputeInBf16) {
  TwoInputs t;
  const Value a = encode(t.shared, t.x);
  const MixedPrecision precision(t.graph);
  EXPECT_EQ(encode(t.shared, t.x).dtype(), Dtype::bf16);
  EXPECT_EQ(t.graph.values(kVariables).size(), 4U);
  EXPECT_EQ(a.dtype(), Dtype::f32);
}

TEST(SharedVariables, AreThereAgainInALoadedGraph) {
  TwoInputs t;
  (void)encode(t.shared, t.x);
  (void)encode(t.shared, t.z);
  expect_round_trip(t.graph);
}

TEST(SharedVariables, WithoutThemEachLayerMakesItsOwn) {
  TwoInputs t;
  (void)encode(t.shared, t.x);
  (void)dense(t.x, {.features = 4});
  EXPECT_EQ(t.graph.values(kVariables).size(), 6U);
  EXPECT_EQ(t.shared.variables().size(), 4U);
}

}  // namespace
}  // namespace sectionflow
