#include "autodiff/gradients.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "autodiff/gradient_registry.h"
#include "graph/nodes/arithmetic.h"
#include "graph/nodes/layout.h"
#include "graph/op_registry.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/batch_norm.h"
#include "graph/ops/bias_add.h"
#include "graph/ops/identities.h"
#include "graph/ops/indexing.h"
#include "graph/ops/layout.h"
#include "graph/ops/matmul.h"
#include "graph/ops/random.h"
#include "graph/ops/reduce.h"
#include "graph/ops/softmax.h"
#include "graph/ops/unary.h"
#include "tests/autodiff/weight.h"
#include "tests/support/contains.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow {
namespace {

using namespace testing_support;

/// The ops of the nodes that `gradients` added.
std::vector<std::string> ops_from(const Graph& graph, NodeId first) {
  std::vector<std::string> ops;
  for (NodeId id = first; id < graph.num_nodes(); ++id) ops.push_back(graph.node(id).op().name);
  return ops;
}

// ---- Structure.

TEST(Gradients, NodesTakeTheGroupOfTheNodeThatTheyDifferentiate) {
  Graph graph;
  const GroupId low = graph.new_group(), high = graph.new_group();
  Value w, h, loss;
  {
    const auto group = graph.enter_group(low);
    w = weight(graph, "w", {2});
    h = relu(w);
  }
  {
    const auto group = graph.enter_group(high);
    loss = reduce_sum(h * 2.0F);
  }
  const NodeId end = loss.node().id() + 1;
  const Value dw = gradients(loss, {w})[0];
  EXPECT_EQ(dw.node().group(), low);
  for (NodeId id = end; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    EXPECT_EQ(node.group(), node.op().name == "relu_grad" ? low : high) << node.label();
    EXPECT_EQ(node.phase(), Phase::training) << node.label();
  }
  EXPECT_EQ(graph.current_group(), kNoGroup);
}

TEST(Gradients, NamesStandBelowOneScopeAndTheNodeDifferentiated) {
  Graph graph;
  const Value w = weight(graph, "w", {2});
  Value loss;
  {
    const auto scope = graph.scope("layer");
    loss = reduce_sum(relu(w));
  }
  EXPECT_EQ(gradients(loss, {w})[0].name(), "gradients/layer/relu/relu_grad");
  EXPECT_EQ(gradients(loss, {w})[0].name(), "gradients_1/layer/relu/relu_grad");
  EXPECT_EQ(graph.unique_name("x"), "x");
}

TEST(Gradients, OnlyWhatTheVariablesNeedIsAdded) {
  Graph graph;
  const Value x = placeholder(graph, "x", {4, 3});
  const Value w = weight(graph, "w", {3, 2}), frozen = weight(graph, "frozen", {2});
  const Value loss = reduce_sum(relu(bias_add(matmul(relu(x), w), frozen)));
  const NodeId end = loss.node().id() + 1;
  gradients(loss, {w});
  EXPECT_EQ(ops_from(graph, end), (std::vector<std::string>{"fill", "reduce_grad", "relu_grad", "matmul"}));
}

TEST(Gradients, OfTheLossItselfIsOne) {
  Graph graph;
  const Value loss = reduce_sum(weight(graph, "w", {2}));
  const Value one = gradients(loss, {loss})[0];
  ASSERT_EQ(one.node().op().name, "fill");
  EXPECT_EQ(one.node().options<FillOptions>().value, 1);
}

TEST(Gradients, OfAnIntermediateValueIsWhatFlowsIntoIt) {
  Graph graph;
  const Value w = weight(graph, "w", {2});
  const Value h = relu(w);
  const Value loss = reduce_sum(h);
  const auto both = gradients(loss, {h, w});
  EXPECT_EQ(both[0].node().op().name, "reduce_grad");
  EXPECT_EQ(both[1].node().inputs()[0], both[0]);
}

TEST(Gradients, VariableNamedTwiceGetsTheSameGradient) {
  Graph graph;
  const Value w = weight(graph, "w", {2});
  const auto twice = gradients(reduce_sum(w * w), {w, w});
  EXPECT_EQ(twice[0], twice[1]);
}

// ---- What does not flow.

TEST(Gradients, UnreachedVariableIsRefusedNamingIt) {
  Graph graph;
  const Value w = weight(graph, "w", {2});
  const Value lonely = weight(graph, "lonely", {2});
  const Value loss = reduce_sum(w);
  const std::string text = error_text<ArgumentError>([&] { gradients(loss, {w, lonely}); });
  EXPECT_TRUE(contains(text, "variable 'lonely' is not reached from the loss 'reduce_sum'")) << text;
  // Read, but only after the loss.
  relu(lonely);
  EXPECT_THROW(gradients(loss, {lonely}), ArgumentError);
}

TEST(Gradients, LossThatIsNoScalarIsRefused) {
  Graph graph;
  const Value w = weight(graph, "w", {2});
  const std::string text = error_text<ShapeError>([&] { gradients(relu(w), {w}); });
  EXPECT_TRUE(contains(text, "'relu'") && contains(text, "f32[2]") && contains(text, "mean(loss)")) << text;
  EXPECT_THROW(gradients(variable("v", fill(graph, {}, 0, Dtype::f64)), {w}), ShapeError);
  EXPECT_THROW(gradients(Value(), {w}), ArgumentError);
}

TEST(Gradients, VariableOfAnotherGraphIsRefusedEvenWhereNumbersAgree) {
  Graph graph, other;
  const Value w = weight(graph, "w", {2});
  const Value twin = weight(other, "twin", {2});
  ASSERT_EQ(w.node().id(), twin.node().id());
  const std::string text = error_text<ArgumentError>([&] { gradients(reduce_sum(w), {twin}); });
  EXPECT_TRUE(contains(text, "'twin' belongs to another graph")) << text;
  EXPECT_THROW(gradients(reduce_sum(w), {Value()}), ArgumentError);
}

TEST(Gradients, NoneFlowsThroughInputsOfWhichOnlyTheShapeIsRead) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2, 3});
  const Value w = weight(graph, "w", {3, 2});
  EXPECT_THROW(gradients(reduce_sum(reshape_like(x, w)), {w}), ArgumentError);
  EXPECT_THROW(gradients(reduce_sum(reduce_to_like(x, weight(graph, "b", {3}))), {graph.find("b").output()}),
               ArgumentError);
}

TEST(Gradients, NoneFlowsThroughIndicesAndIntegers) {
  Graph graph;
  const Value w = weight(graph, "w", {2, 3});
  EXPECT_THROW(gradients(reduce_sum(cast(argmax(w), Dtype::f32)), {w}), ArgumentError);
  EXPECT_THROW(gradients(reduce_sum(cast(cast(w, Dtype::i32), Dtype::f32)), {w}), ArgumentError);
  EXPECT_THROW(gradients(reduce_sum(cast(cast(w, Dtype::boolean), Dtype::f32)), {w}), ArgumentError);
  // Beside a path that carries, they add nothing.
  const Value loss = reduce_sum(w * cast(cast(w, Dtype::i32), Dtype::f32));
  EXPECT_EQ(gradients(loss, {w})[0].node().op().name, "mul");
}

TEST(Gradients, FlowThroughCastsBetweenFloats) {
  Graph graph;
  const Value w = weight(graph, "w", {2});
  const Value dw = gradients(reduce_sum(cast(cast(w, Dtype::f64), Dtype::f32)), {w})[0];
  EXPECT_EQ(dw.node().op().name, "cast");
  EXPECT_EQ(dw.type().text(), "f32[2]");
}

TEST(Gradients, LossOnStatisticsOfAnOpIsRefused) {
  Graph graph;
  const Value yes = constant(graph, HostTensor::scalar(true));
  const Value w = weight(graph, "w", {4, 3});
  const Value c = fill(graph, {3}, 1);
  const auto norm = batch_norm(w, c, c, c, c, yes);
  EXPECT_TRUE(contains(error_text<ArgumentError>([&] { gradients(reduce_sum(norm.mean), {w}); }), "batch_norm"));
  Node& entropy = softmax_cross_entropy(w, placeholder(graph, "labels", {4}, Dtype::i32)).node();
  EXPECT_TRUE(
      contains(error_text<ArgumentError>([&] { gradients(reduce_sum(entropy.output(1)), {w}); }), "statistics"));
  const Value both = mean(entropy.output(0)) + reduce_sum(entropy.output(1));
  EXPECT_THROW(gradients(both, {w}), ArgumentError);
}

TEST(Gradients, LabelsThatDependOnAVariableAreRefused) {
  Graph graph;
  const Value w = weight(graph, "w", {4, 3});
  const Value loss = mean(softmax_cross_entropy(placeholder(graph, "logits", {4, 3}), w));
  const std::string text = error_text<ArgumentError>([&] { gradients(loss, {w}); });
  EXPECT_TRUE(contains(text, "labels 'w'")) << text;
}

TEST(Gradients, AreRefusedWhereAnyInputWasPutInLater) {
  // Of the second input, too, whose part would be left out: what it is made of is differentiated before its reader.
  for (int late : {0, 1}) {
    Graph graph;
    const Value w = weight(graph, "w", {2});
    const Value sum = add(w, w);
    const Value squared = square(w);
    graph.replace_input(sum.node(), late, squared);
    const Value loss = reduce_sum(sum);
    const std::string text = error_text<ArgumentError>([&] { gradients(loss, {w}); });
    EXPECT_TRUE(contains(text, squared.name())) << text;
    EXPECT_TRUE(contains(text, "put in later")) << text;
  }
}

TEST(Gradients, AreNotRefusedForALateInputThatCarriesNoneOrDoesNotLeadToTheLoss) {
  Graph graph;
  const Value w = weight(graph, "w", {4, 3});
  const Value labels = placeholder(graph, "labels", {4}, Dtype::i32);
  const Value entropy = softmax_cross_entropy(w, labels);
  const Value elsewhere = relu(w);
  graph.replace_input(entropy.node(), 1, placeholder(graph, "other labels", {4}, Dtype::i32));
  graph.replace_input(elsewhere.node(), 0, square(w));
  const Value loss = mean(entropy);
  const std::vector<Value> gradient = gradients(loss, {w});
  EXPECT_EQ(gradient.at(0).shape(), w.shape());
}

TEST(Gradients, AreNotRefusedForALateInputBesideTheWayFromTheVariables) {
  Graph graph;
  const Value w = weight(graph, "w", {2});
  const Value beside = tanh(fill(graph, {2}, 1));
  const Value loss = reduce_sum(w * w) + reduce_sum(beside);
  graph.replace_input(beside.node(), 0, fill(graph, {2}, 2));
  EXPECT_EQ(gradients(loss, {w}).at(0).shape(), w.shape());
}

TEST(Gradients, AreRefusedWhereOnlyALateInputLeadsFromAVariable) {
  Graph graph;
  const Value w = weight(graph, "w", {2});
  const Value beside = tanh(fill(graph, {2}, 1));
  const Value loss = reduce_sum(w * w) + reduce_sum(relu(beside));
  // From after the loss, by way of a node that no number tells to depend on it.
  graph.replace_input(beside.node(), 0, square(square(w)));
  const std::string text = error_text<ArgumentError>([&] { gradients(loss, {w}); });
  EXPECT_TRUE(contains(text, "put in later")) << text;
}

TEST(Gradients, DoNotShiftTheRandomNumbersOfTheModel) {
  Graph graph;
  const Value w = weight(graph, "w", {2});
  const Value noise = random_normal(graph, {2});
  gradients(reduce_sum(w * noise), {w});
  EXPECT_EQ(random_normal(graph, {2}).node().random_ordinal(), noise.node().random_ordinal() + 1);
}

TEST(GradientRegistry, EveryRuleBelongsToAnOp) {
  int num_rules = 0;
  for (const auto& [name, op] : op_registry().all()) num_rules += gradient_registry().find(name) != nullptr ? 1 : 0;
  EXPECT_GE(num_rules, 13);
  EXPECT_EQ(gradient_registry().find("no such op"), nullptr);
}

}  // namespace
}  // namespace sectionflow
