// Which operations have a gradient rule, which a zero gradient, and what happens to those that have neither.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "autodiff/gradient_registry.h"
#include "autodiff/gradients.h"
#include "graph/nodes/arithmetic.h"
#include "graph/nodes/layout.h"
#include "graph/nodes/matmul.h"
#include "graph/op_registry.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/attention.h"
#include "graph/ops/basic.h"
#include "graph/ops/identities.h"
#include "graph/ops/indexing.h"
#include "graph/ops/layer_norm.h"
#include "graph/ops/layout.h"
#include "graph/ops/matmul.h"
#include "graph/ops/pool.h"
#include "graph/ops/reduce.h"
#include "graph/ops/softmax.h"
#include "graph/ops/unary.h"
#include "tests/autodiff/weight.h"
#include "tests/support/contains.h"
#include "tests/support/op_case.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow {
namespace {

using namespace testing_support;

// ---- What is declared.

TEST(GradientRules, EveryOperationThatReadsAValueIsDeclared) {
  std::string undeclared;
  for (const auto& [name, op] : op_registry().all()) {
    // What reads nothing, and updates, which give nothing that a loss could depend on.
    if (op.inputs.most == 0 || !op.updated_inputs.empty()) continue;
    if (gradient_registry().find(name) == nullptr) undeclared += name + " ";
  }
  EXPECT_EQ(undeclared, "") << "give them a rule or add_zero() in autodiff/gradients";
}

TEST(GradientRules, OnlyOperationsOfStepsAreDeclaredToHaveAZeroGradient) {
  std::string zero;
  for (const auto& [name, entry] : gradient_registry().all()) zero += entry.is_zero() ? name + " " : "";
  EXPECT_EQ(zero,
            "argmax categorical choice equal greater greater_equal is_finite less less_equal logical_and logical_not "
            "logical_or logical_xor "
            "not_equal one_hot random_like sign stop_gradient ");
}

TEST(GradientRules, InputsOfZeroGradientChooseOrAreStatistics) {
  std::string zero, perhaps;
  for (const auto& [name, entry] : gradient_registry().all()) {
    for (int input : entry.traits.zero_inputs) zero += text_of(name, ":", input, " ");
    for (int input : entry.traits.perhaps_none) perhaps += text_of(name, ":", input, " ");
  }
  EXPECT_EQ(
      zero,
      "assert_that:2 assert_that:3 assert_that:4 assert_that:5 assert_that:6 assert_that:7 assert_that:8 assert_that:9 "
      "attention_dropout_grad:4 attention_grad:4 batch_norm_grad:3 batch_norm_grad:4 batch_norm_grad:6 "
      "clip_grad:1 custom_gradient:0 group_norm_grad:3 group_norm_grad:4 layer_norm_grad:3 "
      "layer_norm_grad:4 leaky_relu_grad:1 maximum_grad:1 maximum_grad:2 minimum_grad:1 minimum_grad:2 "
      "reduce_max_grad:1 "
      "reduce_max_grad:2 relu_grad:1 rms_norm_grad:3 softmax_cross_entropy_grad:1 ");
  EXPECT_EQ(perhaps,
            "attention_dropout_grad:3 attention_grad:3 batch_norm_grad:1 batch_norm_grad:2 group_norm_grad:1 "
            "group_norm_grad:2 layer_norm_grad:1 layer_norm_grad:2 rms_norm_grad:1 rms_norm_grad:2 ");
}

TEST(GradientRules, EveryRuleBelongsToAnOperation) {
  for (const auto& [name, entry] : gradient_registry().all()) {
    EXPECT_TRUE(op_registry().all().contains(name)) << name;
  }
}

// ---- Numbers that were dropped without a rule.

Doubles gradient_of(Value loss, Value w, const std::vector<float>& content) {
  const Value dw = gradients(loss, {w})[0];
  Feeds feeds;
  feeds.emplace(w, HostTensor::of<float>(w.shape(), content));
  return doubles_of(run_kernels({dw}, feeds)[0]);
}

TEST(GradientRules, ReshapeLikePassesTheGradientOn) {
  Graph graph;
  const Value w = placeholder(graph, "w", {2});
  EXPECT_EQ(gradient_of(reduce_sum(w + reshape_like(w * 3.0F, w)), w, {1, 2}), (Doubles{4, 4}));
}

TEST(GradientRules, ReduceToLikeRepeatsTheGradient) {
  Graph graph;
  const Value w = placeholder(graph, "w", {2});
  const Value rows = broadcast_to(w * 3.0F, {4, 2});
  EXPECT_EQ(gradient_of(reduce_sum(w + reduce_to_like(rows, w)), w, {1, 2}), (Doubles{13, 13}));
}

TEST(GradientRules, MatmulOverRowsPassesTheGradientToBothOperands) {
  Graph graph;
  const Value w = placeholder(graph, "w", {2});
  const Value m = reshape(w, {2, 1});
  EXPECT_EQ(gradient_of(reduce_sum(w) + reduce_sum(matmul_over_rows(m, m)), w, {1, 2}), (Doubles{3, 5}));
}

// ---- An operation without a rule.

GradientRegistry without(const std::string& op) {
  GradientRegistry some;
  for (const auto& [name, entry] : gradient_registry().all()) {
    if (name == op) continue;
    if (entry.is_zero()) {
      some.add_zero(name);
    } else {
      some.add(name, entry.rule, entry.traits);
    }
  }
  return some;
}

TEST(MissingRule, IsRefusedNamingTheOperationTheWayAndWhatToDo) {
  Graph graph;
  const Value w = weight(graph, "w", {2});
  const Value hidden = relu(relu(relu(relu(w))));
  const int made = __LINE__ + 1;
  const Value bent = tanh(hidden);
  const Value loss = reduce_sum(square(square(square(bent))));
  const int num_nodes = graph.num_nodes();
  EXPECT_EQ(whole_error_text<ArgumentError>([&] { gradients_by(without("tanh"), loss, {w}); }),
            text_of("SF-E031 ArgumentError: tanh 'tanh' has no gradient rule, and the loss 'reduce_sum' depends on it"
                    "\n  where:   gradient_rules.cpp:",
                    made,
                    "\n  path:    w -> ... -> relu_2 -> relu_3 -> tanh -> square -> square_1 -> ... -> reduce_sum"
                    "\n  hint:    put stop_gradient() in front of it if what it computes is to count as constant, or "
                    "compute it by operations that have a gradient"));
  EXPECT_EQ(graph.num_nodes(), num_nodes);
}

TEST(MissingRule, IsAllowedWhereTheInfluenceDoesNotReachTheLoss) {
  Graph graph;
  const Value w = weight(graph, "w", {2}), frozen = weight(graph, "frozen", {2});
  (void)tanh(w);                                                // beside the loss
  const Value constant_part = tanh(frozen);                     // not of a source
  const Value stopped = stop_gradient(tanh(w));                 // declared to count as constant
  const Value chosen = select(greater(tanh(w), frozen), w, w);  // chooses alone
  const Value loss = reduce_sum(w * constant_part + w * stopped + chosen);
  EXPECT_NO_THROW(gradients_by(without("tanh"), loss, {w}));
}

TEST(MissingRule, ARuleThatGivesLessThanItIsAskedForIsAFault) {
  Graph graph;
  const Value w = weight(graph, "w", {2});
  const Value loss = reduce_sum(tanh(w));
  GradientRegistry lazy = gradient_registry();
  lazy.add("tanh", [](const GradientRequest&) { return std::vector{Value()}; });
  EXPECT_TRUE(contains(error_text<InternalError>([&] { gradients_by(lazy, loss, {w}); }),
                       "tanh 'tanh': its gradient rule gave none for input 0, 'w'"));
  lazy.add("tanh", [](const GradientRequest& r) { return std::vector{reduce_sum(r.dy())}; });
  EXPECT_TRUE(contains(error_text<InternalError>([&] { gradients_by(lazy, loss, {w}); }),
                       "gave f32[] for input 0, 'w', which is f32[2]"));
}

// ---- Operations that stop the gradient.

std::string unreached(Value loss, Value variable) {
  return whole_error_text<ArgumentError>([&] { gradients(loss, {variable}); });
}

TEST(StoppedGradient, TheStopNearestToTheVariableIsNamed) {
  Graph graph;
  const Value w = weight(graph, "w", {2, 3});
  const Value hidden = tanh(w);
  const Value stopped = stop_gradient(stop_gradient(hidden));
  const std::string text = unreached(reduce_sum(square(stopped)), w);
  EXPECT_TRUE(contains(text,
                       "SF-E030 ArgumentError: variable 'w' is not reached from the loss 'reduce_sum': "
                       "stop_gradient 'stop_gradient' passes no gradient on"))
      << text;
  EXPECT_TRUE(contains(text, "path:    w -> tanh -> stop_gradient -> stop_gradient_1 -> square -> ... -> reduce_sum") ||
              contains(text, "path:    w -> tanh -> stop_gradient -> stop_gradient_1 -> square -> reduce_sum"))
      << text;
}

TEST(StoppedGradient, OperationsOfZeroGradientAndCastsToIntegersAreNamed) {
  Graph graph;
  const Value w = weight(graph, "w", {2, 3});
  EXPECT_TRUE(contains(unreached(reduce_sum(cast(argmax(tanh(w)), Dtype::f32)), w), "argmax 'argmax' passes no"));
  EXPECT_TRUE(contains(unreached(reduce_sum(cast(cast(w, Dtype::i32), Dtype::f32)), w), ": cast 'cast_1' passes no"));
  const Value x = placeholder(graph, "x", {2, 3});
  EXPECT_TRUE(contains(unreached(reduce_sum(reshape_like(x, w)), w), "reshape_like 'reshape_like' passes no"));
  EXPECT_TRUE(contains(unreached(reduce_sum(select(less(w, x), x, x)), w), "less 'less' passes no"));
}

TEST(StoppedGradient, WhereNoDataLeadsToTheLossNothingIsNamed) {
  Graph graph;
  const Value w = weight(graph, "w", {2}), other = weight(graph, "other", {2});
  (void)stop_gradient(w);
  const std::string text = unreached(reduce_sum(other), w);
  EXPECT_TRUE(contains(text, "is not reached from the loss 'reduce_sum'\n")) << text;
}

TEST(StoppedGradient, AnotherWayStillCounts) {
  Graph graph;
  const Value w = placeholder(graph, "w", {2});
  EXPECT_EQ(gradient_of(reduce_sum(w * stop_gradient(w)), w, {3, -2}), (Doubles{3, -2}));
}

TEST(StoppedGradient, CostsNoCopy) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2});
  const Node& node = stop_gradient(x).node();
  const std::vector<TensorType> types = {x.type()};
  EXPECT_TRUE(node.op().is_identity({types, types, {}, node.any_options()}));
}

// ---- Refused by name.

struct RefusedCase {
  const char* name;
  Value (*loss)(Graph&, Value w);  ///< of w [1, 2, 4, 4]
  const char* wanted;
};

Value second(Value y, Value w) {
  return reduce_sum(square(gradients(reduce_sum(square(y)), {w})[0]));
}

const RefusedCase kRefused[] = {
    {"labels",
     [](Graph&, Value w) {
       const Value rows = reshape(w, {8, 4});
       return mean(softmax_cross_entropy(rows * 2.0F, rows));
     },
     "labels 'reshape' depend on a variable to train"},
    {"causal attention of unknown length",
     [](Graph& graph, Value w) {
       const Value keys = placeholder(graph, "keys", {1, 2, kDynamic, 4});
       const AttentionOptions options{.causal = true, .alignment = CausalAlignment::last_key};
       return second(attention(w, keys, keys, options), w);
     },
     "where sizes are known before a run, here S; came q [1,2,4,4], k [1,2,?,4] and v [1,2,?,4]"},
    {"third derivative of layer norm",
     [](Graph& graph, Value w) {
       return second(second(layer_norm(w, fill(graph, {4}, 1), fill(graph, {4}, 0)), w), w);
     },
     "layer_norm 'layer_norm': the loss depends on the statistics themselves"},
    {"max pool of large windows",
     [](Graph& graph, Value w) {
       return second(max_pool2d(reshape(broadcast_to(w, {20, 2, 4, 4}), {1, 20, 32, 1}), {.window = {20, 32}}), w) +
              reduce_sum(fill(graph, {}, 0));
     },
     "differentiated for windows of up to 256 elements, and has windows of 640"},
    {"swaps", [](Graph&, Value w) { return reduce_sum(swap_in(swap_out(w * 2.0F))); }, "swaps are put into a graph"}};

TEST(RefusedGradient, NamesTheOperationAndTheWay) {
  for (const RefusedCase& refused : kRefused) {
    SCOPED_TRACE(refused.name);
    Graph graph;
    const Value w = weight(graph, "w", {1, 2, 4, 4});
    Value loss;
    std::string text = "nothing was thrown";
    try {
      loss = refused.loss(graph, w);
      gradients(loss, {w});
    } catch (const ArgumentError& error) {
      text = error.what();
      EXPECT_EQ(error.code(), ErrorCode::no_gradient_rule);
      EXPECT_FALSE(error.fact("hint").empty());
      EXPECT_TRUE(error.fact("path").starts_with("w -> ")) << error.fact("path");
    }
    EXPECT_TRUE(contains(text, refused.wanted)) << text;
  }
}

}  // namespace
}  // namespace sectionflow
