#include "graph/layers.h"
#include "graph/nodes/random.h"
#include "graph/op_def.h"
#include "graph/ops/basic.h"
#include "graph/ops/random.h"
#include "tests/graph/description.h"
#include "tests/graph/shapes.h"

namespace sectionflow {
namespace {

using testing_support::description;

class Embedding : public testing_support::Shapes {};

TEST_F(Embedding, MakesATableAndGathersItsRows) {
  Graph graph;
  const Value tokens = placeholder(graph, "tokens", {kDynamic, 16}, Dtype::i64);
  const Value y = embedding(tokens, {.vocabulary = 50, .width = 8, .name = "words"});
  EXPECT_EQ(y.type().text(), "f32[?,16,8]");
  EXPECT_EQ(y.node().op().name, "gather");
  const std::vector<Value> trained = graph.values(kTrainableVariables);
  ASSERT_EQ(trained.size(), 1U);
  EXPECT_EQ(trained[0].name(), "words/table");
  EXPECT_EQ(trained[0].type().text(), "f32[50,8]");
  const Node& initial = initializer_of(trained[0]).node().inputs()[1].node();
  EXPECT_EQ(initial.options<RandomOptions>().distribution, Distribution::truncated_normal);
}

TEST_F(Embedding, TakesTheInitialiserThatIsGiven) {
  Graph graph;
  const Value tokens = placeholder(graph, "tokens", {4}, Dtype::i32);
  const Value y = embedding(tokens, {.vocabulary = 5, .width = 3, .initializer = constant_initializer(0.5)});
  const Node& initial = initializer_of(y.node().inputs()[0]).node().inputs()[1].node();
  EXPECT_EQ(initial.options<FillOptions>().value, 0.5);
}

TEST_F(Embedding, RefusedCallsLeaveNoTableBehind) {
  Graph graph;
  const Value x = placeholder(graph, "x", {4}), tokens = placeholder(graph, "tokens", {4}, Dtype::i32);
  const auto before = description(graph);
  expect_refused<ArgumentError>([&] { embedding(x, {.vocabulary = 5, .width = 3, .name = "words"}); },
                                "embedding 'words'", {"f32[4]", "i32 or i64", "try cast"});
  expect_refused<ArgumentError>([&] { embedding(tokens, {.vocabulary = 5}); }, "embedding 'embedding'",
                                {"vocabulary is 5", "width 0"});
  expect_refused<ArgumentError>([&] { embedding(tokens, {.width = 5}); }, "embedding 'embedding'", {"vocabulary is 0"});
  EXPECT_EQ(description(graph), before);
}

}  // namespace
}  // namespace sectionflow
