#include "graph/graph.h"

#include <gtest/gtest.h>

#include <map>

#include "graph/op_def.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/bias_add.h"
#include "graph/ops/matmul.h"
#include "graph/ops/random.h"
#include "graph/ops/unary.h"
#include "graph/ops/update.h"
#include "tests/graph/description.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow {
namespace {

using testing_support::contains;
using testing_support::description;

TEST(Graph, NodesAreNumberedInTheOrderInWhichTheyAreMade) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2, 3});
  const Value y = relu(x);
  const Value z = add(y, x);
  EXPECT_EQ(graph.num_nodes(), 3);
  EXPECT_EQ(x.node().id(), 0);
  EXPECT_EQ(y.node().id(), 1);
  EXPECT_EQ(z.node().id(), 2);
  EXPECT_EQ(z.node().inputs(), (std::vector<Value>{y, x}));
  EXPECT_EQ(&graph.node(1), &y.node());
  EXPECT_EQ(z.node().label(), "add 'add'");
  EXPECT_EQ(z.type().text(), "f32[2,3]");
}

TEST(Graph, RefusedNodeLeavesTheGraphUnchanged) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2, 3});
  const Value numbers = placeholder(graph, "numbers", {2}, Dtype::i32);
  const Value open = placeholder(graph, "open", {kDynamic, 3});
  const Value w = variable("w", random_normal(graph, {4, 5}));
  const auto before = description(graph);

  EXPECT_THROW(matmul(x, w), ShapeError);
  EXPECT_THROW(add(x, w), ShapeError);
  EXPECT_THROW(relu(numbers), ArgumentError);
  EXPECT_THROW(random_normal(graph, {kDynamic}), ShapeError);
  EXPECT_THROW(random_normal(graph, {2}, {.stddev = 0}), ArgumentError);
  EXPECT_THROW(fill(graph, {kDynamic}, 0), ShapeError);
  EXPECT_THROW(assign(x, x), ArgumentError);
  EXPECT_THROW(assign(w, x), ShapeError);
  EXPECT_THROW(variable("v", open), ShapeError);
  EXPECT_THROW(add_n({}), ArgumentError);

  EXPECT_EQ(description(graph), before);
  EXPECT_EQ(graph.values(kVariables), (std::vector<Value>{w}));
  // Neither the names nor an ordinal of the refused nodes are spent.
  EXPECT_EQ(relu(x).name(), "relu");
  EXPECT_EQ(matmul(x, x, {.transpose_b = true}).name(), "matmul");
  EXPECT_EQ(random_normal(graph, {1}).node().random_ordinal(), 1U);
}

TEST(Graph, InputsOfAnotherGraphAreRefusedNamingThem) {
  Graph graph, other;
  const Value x = placeholder(graph, "x", {2});
  const Value stranger = placeholder(other, "stranger", {2});
  const std::string text = error_text<ArgumentError>([&] { add(x, stranger); });
  EXPECT_EQ(text.find("add 'add'"), 0U) << text;
  EXPECT_TRUE(contains(text, "'stranger' belongs to another graph")) << text;
  EXPECT_EQ(graph.num_nodes(), 1);
  EXPECT_EQ(other.num_nodes(), 1);
}

TEST(Graph, DefaultConstructedInputIsRefusedNamingItsPlace) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2});
  const std::string text = error_text<ArgumentError>([&] { add(x, Value()); });
  EXPECT_TRUE(contains(text, "input 1 is a default-constructed Value")) << text;
  EXPECT_THROW(add(Value(), x), ArgumentError);
  EXPECT_EQ(graph.num_nodes(), 1);
}

TEST(Graph, FindGivesTheNodeOfAName) {
  Graph graph;
  const Value x = placeholder(graph, "images", {2});
  const auto scope = graph.scope("block");
  const Value y = relu(x);
  EXPECT_EQ(&graph.find("images"), &x.node());
  EXPECT_EQ(&graph.find("block/relu"), &y.node());
}

TEST(Graph, FindSuggestsTheNearestSpellingAndOnlyANearOne) {
  Graph graph;
  placeholder(graph, "images", {2});
  placeholder(graph, "labels", {2});
  EXPECT_TRUE(contains(error_text<ArgumentError>([&] { graph.find("imaegs"); }), "did you mean 'images'?"));
  EXPECT_TRUE(contains(error_text<ArgumentError>([&] { graph.find("label"); }), "did you mean 'labels'?"));
  const std::string far = error_text<ArgumentError>([&] { graph.find("convolution"); });
  EXPECT_TRUE(contains(far, "no node 'convolution'")) << far;
  EXPECT_FALSE(contains(far, "did you mean")) << far;
}

TEST(Graph, ControlEdgesAreKeptOnceAndInOrder) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2});
  const Operation a(relu(x)), b(relu(x)), c(relu(x));
  graph.add_control_edge(b, c);
  graph.add_control_edge(a, c);
  graph.add_control_edge(b, c);
  EXPECT_EQ(c.node().control_inputs(), (std::vector<Node*>{&b.node(), &a.node()}));
  EXPECT_TRUE(a.node().control_inputs().empty());
}

TEST(Graph, ControlEdgesOfAnotherGraphAreRefused) {
  Graph graph, other;
  const Operation here(placeholder(graph, "here", {}));
  const Operation there(placeholder(other, "there", {}));
  const std::string text = error_text<ArgumentError>([&] { graph.add_control_edge(there, here); });
  EXPECT_TRUE(contains(text, "'there' to 'here'")) << text;
  EXPECT_THROW(graph.add_control_edge(here, there), ArgumentError);
  EXPECT_THROW(other.add_control_edge(there, here), ArgumentError);
  EXPECT_THROW(graph.add_control_edge(Operation(), here), ArgumentError);
  EXPECT_TRUE(here.node().control_inputs().empty());
  EXPECT_TRUE(there.node().control_inputs().empty());
}

TEST(Graph, GroupWaitsForAllOfItsOperationsAndGivesNoValue) {
  Graph graph;
  const Value w = variable("w", fill(graph, {2}, 0));
  const Value v = variable("v", fill(graph, {2}, 0));
  const Operation all = group(graph, {initializer_of(w), initializer_of(v)}, "init");
  EXPECT_EQ(all.name(), "init");
  EXPECT_EQ(all.node().control_inputs(), (std::vector<Node*>{&initializer_of(w).node(), &initializer_of(v).node()}));
  EXPECT_TRUE(all.node().output_types().empty());
  EXPECT_FALSE(all.node().op().has_kernel);
}

TEST(Value, DefaultConstructedOneRefusesEveryQuestion) {
  const Value nothing;
  EXPECT_FALSE(nothing.valid());
  EXPECT_THROW(nothing.node(), ArgumentError);
  EXPECT_THROW(nothing.graph(), ArgumentError);
  EXPECT_THROW(nothing.type(), ArgumentError);
  EXPECT_THROW(nothing.shape(), ArgumentError);
  EXPECT_THROW(nothing.name(), ArgumentError);
  EXPECT_FALSE(Operation().valid());
  EXPECT_THROW(Operation().node(), ArgumentError);
  EXPECT_EQ(nothing, Value());
}

TEST(Value, OutputThatANodeDoesNotHaveIsRefusedNamingTheNode) {
  Graph graph;
  const Value w = variable("w", fill(graph, {2}, 0));
  const Value of_update = initializer_of(w).node().output();
  EXPECT_TRUE(contains(error_text<ArgumentError>([&] { of_update.type(); }), "assign 'w/assign' has 0 outputs"));
  EXPECT_THROW(w.node().output(1).shape(), ArgumentError);
  EXPECT_THROW(w.node().output(-1).shape(), ArgumentError);
}

TEST(Value, OrderIsThatOfCreationAndGraphsAreApart) {
  Graph graph, other;
  const Value a = placeholder(graph, "a", {});
  const Value b = placeholder(graph, "b", {});
  const Value stranger = placeholder(other, "a", {});
  EXPECT_TRUE(is_before(a, b));
  EXPECT_FALSE(is_before(b, a));
  EXPECT_FALSE(is_before(a, a));
  EXPECT_TRUE(is_before(Value(a.node(), 0), Value(a.node(), 1)));
  EXPECT_TRUE(std::less<Value>()(a, b));
  EXPECT_NE(a, stranger);
  const std::map<Value, int> of_graph = {{a, 1}, {b, 2}};
  EXPECT_EQ(of_graph.at(Value(a.node(), 0)), 1);
  EXPECT_FALSE(of_graph.contains(stranger));
}

TEST(Value, OutputsAfterTheFirstAreNamedByNumber) {
  Graph graph;
  Node& node = placeholder(graph, "x", {}).node();
  EXPECT_EQ(node.output(0).name(), "x");
  EXPECT_EQ(node.output(2).name(), "x:2");
}

TEST(Graph, TrainingNodesDoNotShiftTheRandomNumbersOfTheModel) {
  Graph plain, mixed;
  random_normal(plain, {1});
  const Value wanted = random_normal(plain, {1});

  const Value first = random_normal(mixed, {1});
  std::uint32_t of_training = 0;
  {
    const auto phase = mixed.enter_phase(Phase::training);
    const Value training = random_uniform(mixed, {1});
    EXPECT_EQ(training.node().phase(), Phase::training);
    of_training = training.node().random_ordinal();
    EXPECT_NE(random_uniform(mixed, {1}).node().random_ordinal(), of_training);
  }
  const Value second = random_normal(mixed, {1});
  EXPECT_EQ(second.node().phase(), Phase::model);
  EXPECT_EQ(first.node().random_ordinal(), 0U);
  EXPECT_EQ(second.node().random_ordinal(), wanted.node().random_ordinal());
  EXPECT_NE(of_training, first.node().random_ordinal());
  EXPECT_NE(of_training, second.node().random_ordinal());
}

TEST(Graph, OnlySeededNodesHaveAnOrdinal) {
  Graph graph;
  fill(graph, {1}, 0);
  const Value a = random_normal(graph, {1});
  relu(a);
  placeholder(graph, "x", {});
  EXPECT_EQ(truncated_normal(graph, {1}).node().random_ordinal(), 1U);
  EXPECT_EQ(relu(a).node().random_ordinal(), 0U);
}

}  // namespace
}  // namespace sectionflow
