#include <gtest/gtest.h>

#include "graph/layers.h"
#include "graph/ops/basic.h"
#include "graph/ops/unary.h"
#include "graph/ops/update.h"
#include "tests/graph/description.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow {
namespace {

using testing_support::contains;

std::vector<std::string> names(const std::vector<Value>& values) {
  std::vector<std::string> result;
  for (const Value& value : values) result.push_back(value.name());
  return result;
}
std::vector<std::string> names(const std::vector<Operation>& operations) {
  std::vector<std::string> result;
  for (const Operation& operation : operations) result.push_back(operation.name());
  return result;
}
using Names = std::vector<std::string>;

TEST(Collections, VariablesAreCollectedAndTheTrainableOnesApart) {
  Graph graph;
  variable("w", fill(graph, {2}, 0));
  variable("average", fill(graph, {2}, 0), {.trainable = false});
  variable("b", fill(graph, {2}, 0));
  EXPECT_EQ(names(graph.values(kVariables)), (Names{"w", "average", "b"}));
  EXPECT_EQ(names(graph.values(kTrainableVariables)), (Names{"w", "b"}));
}

TEST(Collections, EntriesKnowTheGroupInWhichTheyWereAdded) {
  Graph graph;
  const GroupId first = graph.new_group(), second = graph.new_group();
  variable("outside", fill(graph, {1}, 0));
  for (const GroupId group : {first, second}) {
    const auto entered = graph.enter_group(group);
    variable("w", fill(graph, {1}, 0));
    variable("frozen", fill(graph, {1}, 0), {.trainable = false});
  }
  EXPECT_EQ(names(graph.values(kTrainableVariables)), (Names{"outside", "w", "w_1"}));
  EXPECT_EQ(names(graph.values(kTrainableVariables, first)), (Names{"w"}));
  EXPECT_EQ(names(graph.values(kVariables, second)), (Names{"w_1", "frozen_1"}));
  EXPECT_EQ(names(graph.values(kVariables, kNoGroup)), (Names{"outside"}));
}

TEST(Collections, UpdatesOfMovingAveragesAreCollectedByGroup) {
  Graph graph;
  const Value is_training = placeholder(graph, "is_training", {}, Dtype::boolean);
  Value x = placeholder(graph, "x", {kDynamic, 3});
  const GroupId first = graph.new_group(), second = graph.new_group();
  {
    const auto entered = graph.enter_group(first);
    x = batch_norm(x, is_training, {.name = "a"});
  }
  {
    const auto entered = graph.enter_group(second);
    x = batch_norm(x, is_training, {.name = "b"});
  }
  EXPECT_EQ(graph.operations(kUpdateOperations).size(), 4U);
  EXPECT_EQ(names(graph.operations(kUpdateOperations, first)),
            (Names{"a/moving_mean/update_moving_average", "a/moving_variance/update_moving_average"}));
  EXPECT_EQ(names(graph.operations(kUpdateOperations, second)),
            (Names{"b/moving_mean/update_moving_average", "b/moving_variance/update_moving_average"}));
  EXPECT_TRUE(graph.operations(kUpdateOperations, kNoGroup).empty());
}

TEST(Collections, UsersKeepTheirOwn) {
  Graph graph;
  const GroupId group = graph.new_group();
  const Value x = placeholder(graph, "x", {2});
  const Value y = relu(x);
  graph.add_to_collection("activations", y);
  {
    const auto entered = graph.enter_group(group);
    graph.add_to_collection("activations", x);
  }
  graph.add_to_collection("activations", y);
  graph.add_to_collection("activations", Operation(y));
  EXPECT_EQ(graph.values("activations"), (std::vector<Value>{y, x, y}));
  // The group counts that was open when the entry was added, not the value's own.
  EXPECT_EQ(graph.values("activations", group), (std::vector<Value>{x}));
  EXPECT_EQ(graph.operations("activations"), (std::vector<Operation>{Operation(y)}));
}

TEST(Collections, UnknownNameIsEmpty) {
  Graph graph;
  EXPECT_TRUE(graph.values("nothing").empty());
  EXPECT_TRUE(graph.operations("nothing").empty());
  EXPECT_TRUE(graph.values("nothing", kNoGroup).empty());
}

TEST(Collections, StrangersAndNothingAreRefused) {
  Graph graph, other;
  const Value stranger = placeholder(other, "stranger", {});
  EXPECT_TRUE(contains(error_text<ArgumentError>([&] { graph.add_to_collection("mine", stranger); }),
                       "collection 'mine': 'stranger'"));
  EXPECT_THROW(graph.add_to_collection("mine", Operation(stranger)), ArgumentError);
  EXPECT_THROW(graph.add_to_collection("mine", Value()), ArgumentError);
  EXPECT_THROW(graph.add_to_collection("mine", Operation()), ArgumentError);
  EXPECT_TRUE(graph.values("mine").empty());
  EXPECT_TRUE(graph.operations("mine").empty());
}

}  // namespace
}  // namespace sectionflow
