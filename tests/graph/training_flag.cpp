// Graph::training(): one placeholder for all of a graph, which no run has to feed.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <stdexcept>

#include "graph/graph_file.h"
#include "graph/layers.h"
#include "graph/op_def.h"
#include "graph/ops/basic.h"
#include "graph/ops/dropout.h"
#include "graph/ops/update.h"
#include "graph/traversal.h"
#include "tests/graph/description.h"
#include "tests/support/graph_round_trip.h"

namespace sectionflow {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;
using testing_support::description;
using testing_support::expect_round_trip;

TEST(TrainingFlag, IsMadeWhenItIsFirstAskedForAndThenTheSame) {
  Graph graph;
  EXPECT_EQ(graph.training_flag(), nullptr);
  const Value flag = graph.training();
  EXPECT_EQ(graph.training(), flag);
  EXPECT_EQ(graph.training_flag(), &flag.node());
  EXPECT_EQ(graph.num_nodes(), 1);
  EXPECT_EQ(flag.name(), "training");
  EXPECT_EQ(flag.type().text(), "bool[]");
  EXPECT_TRUE(flag.node().op().is_placeholder());
}

TEST(TrainingFlag, BelongsToNoSectionScopeOrPhase) {
  Graph graph;
  const auto group = graph.enter_group(graph.new_group("section 0"));
  const auto phase = graph.enter_phase(Phase::training);
  const auto scope = graph.scope("block");
  const Node& flag = graph.training().node();
  EXPECT_EQ(flag.group(), kNoGroup);
  EXPECT_EQ(flag.phase(), Phase::model);
  EXPECT_EQ(flag.name(), "training");
  EXPECT_NE(graph.current_group(), kNoGroup);
}

TEST(TrainingFlag, TakesAnotherNameBesideAPlaceholderOfThisOne) {
  Graph graph;
  const Value own = placeholder(graph, "training", {}, Dtype::boolean);
  EXPECT_EQ(graph.training().name(), "training_1");
  EXPECT_FALSE(is_training_flag(own.node()));
}

TEST(TrainingFlag, IsWhatLayersAndOperationsWithoutOneGoBy) {
  Graph graph;
  const Value x = placeholder(graph, "x", {4, 3});
  const Value flag = graph.training();
  EXPECT_EQ(dropout(x, {.rate = 0.5F}).node().inputs()[1], flag);
  const Value y = batch_norm(x, {.decay = 0.75F, .relu = true});
  EXPECT_EQ(y.node().inputs()[5], flag);
  for (const Operation& update : graph.operations(kUpdateOperations)) {
    EXPECT_EQ(update.node().inputs()[2], flag);
    EXPECT_EQ(update.node().options<MovingAverageOptions>().decay, 0.75F);
  }
  const Value mean = variable("mean", fill(graph, {3}, 0));
  const Value ones = fill(graph, {3}, 1);
  EXPECT_EQ(batch_norm(x, ones, ones, mean, ones, {.relu = true}).y.node().inputs()[5], flag);
  EXPECT_EQ(update_moving_average(mean, ones, 0.5F).node().inputs()[2], flag);
}

TEST(TrainingFlag, IsTakenOutWithTheChangeThatMadeIt) {
  Graph graph;
  const Value x = placeholder(graph, "x", {4});
  const auto before = description(graph);
  EXPECT_THROW(batch_norm(x, {.name = "bn"}), ShapeError);
  EXPECT_EQ(description(graph), before);
  EXPECT_EQ(graph.training_flag(), nullptr);
  const Value flag = graph.training();
  const auto fail = [&] {
    EXPECT_EQ(graph.training(), flag);
    throw std::runtime_error("not meant");
  };
  EXPECT_THROW(graph.all_or_nothing(fail), std::runtime_error);
  EXPECT_EQ(graph.training(), flag);
}

TEST(TrainingFlag, IsThereAgainInALoadedGraph) {
  Graph graph;
  (void)dropout(placeholder(graph, "x", {4}));
  expect_round_trip(graph);
  EXPECT_THAT(graph_text(graph), HasSubstr(R"("options":{"type":["bool",[]],"flag":"training"})"));
  Graph loaded;
  load_graph_text(loaded, graph_text(graph));
  EXPECT_EQ(loaded.training(), loaded.find("training").output());
  EXPECT_EQ(loaded.num_nodes(), graph.num_nodes());
  // Other placeholders are written as ever.
  EXPECT_THAT(graph_text(graph), HasSubstr(R"("options":{"type":["f32",[4]]},)"));
}

TEST(TrainingFlag, ASecondOneAndOneOfAnotherTypeAreRefused) {
  Graph graph;
  const std::string flag =
      R"({"name":"NAME","op":"placeholder","options":{"type":["bool",[SHAPE]],"flag":"training"},"types":[["bool",[SHAPE]]]})";
  const auto file = [&](const std::vector<std::pair<std::string, std::string>>& flags) {
    std::string nodes;
    for (const auto& [name, shape] : flags) {
      std::string node = flag;
      for (std::size_t at; (at = node.find("NAME")) != std::string::npos;) node.replace(at, 4, name);
      for (std::size_t at; (at = node.find("SHAPE")) != std::string::npos;) node.replace(at, 5, shape);
      nodes += (nodes.empty() ? "" : ",") + node;
    }
    return R"({"format":"sectionflow-graph","version":1,"groups":[],"scopes":[],"nodes":[)" + nodes +
           R"(],"edits":[],"order":[],"collections":[]})";
  };
  EXPECT_THAT(([&] {
                load_graph_text(graph, file({{"a", ""}, {"b", ""}}));
              }),
              ThrowsMessage<DataError>(AllOf(HasSubstr("placeholder 'b': the graph has a training flag already, 'a'"),
                                             HasSubstr("nodes[1]"))));
  EXPECT_THAT(([&] {
                load_graph_text(graph, file({{"a", "2"}}));
              }),
              ThrowsMessage<DataError>(HasSubstr("the training flag is bool[2]; wanted bool[]")));
  EXPECT_EQ(graph.training_flag(), nullptr);
  load_graph_text(graph, file({{"a", ""}}));
  EXPECT_EQ(graph.training().name(), "a");
}

TEST(TrainingFlag, IsMarkedInDot) {
  Graph graph;
  (void)graph.training();
  std::ostringstream dot;
  write_dot(dot, graph);
  EXPECT_THAT(dot.str(), HasSubstr("training flag"));
}

TEST(NormalisationOptions, WhatIsTheLayersIsRefusedByTheOperation) {
  Graph graph;
  const Value x = placeholder(graph, "x", {4, 3});
  const Value ones = fill(graph, {3}, 1);
  const auto before = description(graph);
  EXPECT_THAT(([&] { batch_norm(x, ones, ones, ones, ones, {.decay = 0.9F}); }),
              ThrowsMessage<ArgumentError>(AllOf(HasSubstr("decay is 0.9; it is an option of the layer alone"),
                                                 HasSubstr("update_moving_average"))));
  EXPECT_THAT(([&] { batch_norm(x, ones, ones, ones, ones, {.name = "bn"}); }),
              ThrowsMessage<ArgumentError>(HasSubstr("name is 'bn'; it is an option of the layer alone")));
  EXPECT_THAT(([&] { layer_norm(x, ones, ones, {.name = "ln"}); }),
              ThrowsMessage<ArgumentError>(HasSubstr("name is 'ln'; it is an option of the layer alone")));
  EXPECT_THAT(([&] { rms_norm(x, ones, {.name = "rn"}); }),
              ThrowsMessage<ArgumentError>(HasSubstr("name is 'rn'; it is an option of the layer alone")));
  EXPECT_EQ(description(graph), before);
}

}  // namespace
}  // namespace sectionflow
