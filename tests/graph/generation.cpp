// What a graph tells those who keep something by the numbers of its nodes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <any>
#include <vector>

#include "graph/graph.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/unary.h"
#include "graph/ops/update.h"
#include "tests/support/take_out_again.h"

namespace sectionflow {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;
using testing_support::take_out_again;

struct SmallGraph {
  Graph graph;
  Value x = placeholder(graph, "x", {2});
  Value w = variable("w", fill(graph, {2}, 1));
  Value y = x * w;
  std::uint64_t before = graph.generation();

  /// How much the generation has grown since this was last asked.
  std::uint64_t growth() {
    const std::uint64_t now = graph.generation();
    return now - std::exchange(before, now);
  }
};

TEST(Generation, AdditionsAloneLeaveItAsItIs) {
  SmallGraph g;
  const Value z = relu(g.y);
  const Operation update = assign_add(g.w, z);
  (void)variable("v", fill(g.graph, {3}, 1));
  (void)g.graph.new_group("group");
  g.graph.add_to_collection(kUpdateOperations, update);
  g.graph.add_to_collection("mine", z);
  EXPECT_EQ(g.growth(), 0U);
}

TEST(Generation, GrowsWithEdgesReplacedInputsAndTrainingOperations) {
  SmallGraph g;
  const Value z = relu(g.y);
  g.graph.add_control_edge(Operation(g.y), Operation(z));
  EXPECT_GT(g.growth(), 0U);
  g.graph.add_control_edge(Operation(g.y), Operation(z));
  EXPECT_EQ(g.growth(), 0U) << "an edge that is there already";
  g.graph.add_order_edge(Operation(g.x), Operation(z));
  EXPECT_GT(g.growth(), 0U);
  g.graph.replace_input(z.node(), 0, g.x);
  EXPECT_GT(g.growth(), 0U);
  g.graph.add_to_collection(kTrainingOperations, assign_add(g.w, z));
  EXPECT_GT(g.growth(), 0U);
}

TEST(Generation, GrowsWhenSomethingIsTakenOutAndIsNeverTheSameAgain) {
  SmallGraph g;
  take_out_again(g.graph, [&] { (void)relu(g.y); });
  EXPECT_GT(g.growth(), 0U);
  take_out_again(g.graph, [&] { (void)g.graph.new_group("group"); });
  EXPECT_GT(g.growth(), 0U);
  take_out_again(g.graph, [] {});
  EXPECT_EQ(g.growth(), 0U) << "nothing was there to be taken out";
  EXPECT_THROW((void)(g.x * placeholder(g.graph, "three", {3})), ShapeError);
  EXPECT_EQ(g.growth(), 0U) << "what is refused was never there";
  // An edge that is taken out and another that comes: the same number of edges, another graph.
  std::uint64_t with_first = 0;
  const Value z = relu(g.y);
  take_out_again(g.graph, [&] {
    g.graph.add_control_edge(Operation(g.x), Operation(z));
    with_first = g.graph.generation();
  });
  g.graph.add_control_edge(Operation(g.y), Operation(z));
  EXPECT_NE(g.graph.generation(), with_first);
}

TEST(Generation, ASerialIsNotUsedAgainWhereANumberIs) {
  SmallGraph g;
  NodeId id = 0;
  std::uint64_t serial = 0;
  take_out_again(g.graph, [&] {
    const Value z = relu(g.y);
    id = z.node().id();
    serial = z.node().serial();
  });
  const Value other = tanh(g.y);
  EXPECT_EQ(other.node().id(), id);
  EXPECT_GT(other.node().serial(), serial);
  EXPECT_GT(serial, g.y.node().serial());
}

TEST(OnRollBack, UndoesTheLastFirstAndBeforeAnythingIsTakenOut) {
  SmallGraph g;
  std::vector<int> undone;
  const int num_nodes = g.graph.num_nodes();
  take_out_again(g.graph, [&] {
    (void)relu(g.y);
    g.graph.on_roll_back([&] {
      EXPECT_EQ(g.graph.num_nodes(), num_nodes + 2);
      undone.push_back(1);
    });
    (void)tanh(g.y);
    g.graph.on_roll_back([&] { undone.push_back(2); });
  });
  EXPECT_THAT(undone, ElementsAre(2, 1));
  take_out_again(g.graph, [] {});
  EXPECT_EQ(undone.size(), 2U) << "once";
}

TEST(OnRollBack, HoldsUntilTheOutermostChangeIsOver) {
  SmallGraph g;
  int undone = 0;
  const auto inner = [&] {
    g.graph.all_or_nothing([&] {
      g.graph.on_roll_back([&] { ++undone; });
      return 0;
    });
  };
  g.graph.all_or_nothing([&] {
    inner();
    return 0;
  });
  take_out_again(g.graph, [] {});
  EXPECT_EQ(undone, 0) << "it succeeded";
  take_out_again(g.graph, inner);
  EXPECT_EQ(undone, 1) << "what succeeded inside is taken out with what is around it";
  g.graph.on_roll_back([&] { ++undone; });
  take_out_again(g.graph, [] {});
  EXPECT_EQ(undone, 1) << "what is added outside of a change stays";
}

TEST(AddNode, AnUnknownOpIsTheCallersFaultAndTheNearestIsTold) {
  SmallGraph g;
  const int num_nodes = g.graph.num_nodes();
  EXPECT_THAT([&] { g.graph.add_node("reluu", {g.x}, {}, ""); },
              ThrowsMessage<ArgumentError>(AllOf(HasSubstr("there is no op 'reluu'"), HasSubstr("'relu'"))));
  EXPECT_THAT([&] { g.graph.add_node("an op of nobody's", {}, {}, ""); },
              ThrowsMessage<ArgumentError>(HasSubstr("there is no op 'an op of nobody's'")));
  EXPECT_EQ(g.graph.num_nodes(), num_nodes);
}

TEST(AddNode, OptionsOfAnotherTypeAreTheCallersFault) {
  SmallGraph g;
  EXPECT_THAT([&] { g.graph.add_node("relu", {g.x}, std::any(3), ""); },
              ThrowsMessage<ArgumentError>(HasSubstr("options of another type than op 'relu' describes")));
}

TEST(GraphChanges, GroupsThatAreSetLaterAreThoseOfNodesAndEntriesUntilTheChangeFails) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2});
  const Value y = x * 2.0F;
  graph.add_to_collection("mine", y);
  const GroupId group = graph.new_group("later");
  const std::uint64_t generation = graph.generation();
  const auto groups_with = [&](GroupId of_y) {
    std::vector<GroupId> groups(static_cast<std::size_t>(graph.num_nodes()), kNoGroup);
    groups[static_cast<std::size_t>(y.node().id())] = of_y;
    return groups;
  };
  EXPECT_THROW(graph.all_or_nothing([&] {
    graph.set_groups(groups_with(group));
    EXPECT_EQ(graph.values("mine", group).size(), 1U);
    throw std::runtime_error("no");
  }),
               std::runtime_error);
  EXPECT_EQ(y.node().group(), kNoGroup);
  EXPECT_TRUE(graph.values("mine", group).empty());
  EXPECT_GT(graph.generation(), generation);
  graph.set_groups(groups_with(group));
  EXPECT_EQ(y.node().group(), group);
  EXPECT_EQ(x.node().group(), kNoGroup);
  EXPECT_EQ(graph.values("mine", group), std::vector<Value>{y});
  EXPECT_THROW(graph.set_groups({}), ArgumentError);
  EXPECT_THROW(graph.set_groups(groups_with(group + 1)), ArgumentError);
  EXPECT_EQ(y.node().group(), group);
}

TEST(GraphChanges, WhatIsTriedGivesItsResultAndLeavesNothing) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2});
  const int num_nodes = graph.num_nodes();
  const int found = graph.tried([&] {
    (void)(x * 2.0F);
    (void)graph.new_group("tried");
    return graph.num_nodes();
  });
  EXPECT_GT(found, num_nodes);
  EXPECT_EQ(graph.num_nodes(), num_nodes);
  EXPECT_EQ(graph.num_groups(), 0);
  EXPECT_THROW((void)graph.tried([&]() -> int { throw std::runtime_error("no"); }), std::runtime_error);
}

}  // namespace
}  // namespace sectionflow
