// What updates of several ranks add to a graph.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "autodiff/updates.h"
#include "graph/graph_file.h"
#include "graph/nodes/update.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/reduce.h"
#include "runtime/session.h"
#include "schedule/ranks.h"
#include "tests/autodiff/weight.h"

namespace sectionflow::updates_of_ranks_tests {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing_support::weight;

/// A weight with a moving average of what it is multiplied with.
struct Averaged {
  Averaged() {
    const Value average = variable("average", fill(graph, {2}, 0.0F), {.trainable = false});
    graph.add_to_collection(kUpdateOperations, update_moving_average(average, x, 0.5F));
  }
  std::string refusal(const UpdateOptions& options, const Optimizer& optimizer = Sgd{}) {
    const std::string before = graph_text(graph);
    try {
      (void)training_updates(optimizer, loss, options);
    } catch (const ArgumentError& error) {
      EXPECT_EQ(graph_text(graph), before);
      return error.what();
    }
    return "nothing was thrown";
  }
  int communications() const {
    int found = 0;
    for (NodeId id = 0; id < graph.num_nodes(); ++id) found += graph.node(id).op().communicates ? 1 : 0;
    return found;
  }

  Graph graph;
  Value x = placeholder(graph, "x", {2}), w = weight(graph, "w", {2}), loss = reduce_mean(w * x);
};

TEST(UpdatesOfRanks, OfOneAreUpdatesWithoutTheOption) {
  Averaged plain, one;
  (void)training_updates(Adam{}, plain.loss);
  (void)training_updates(Adam{}, one.loss, {.ranks = 1});
  EXPECT_EQ(graph_text(plain.graph), graph_text(one.graph));
}

TEST(UpdatesOfRanks, AreSaidByTheGraphAndByItsFile) {
  Averaged net;
  EXPECT_EQ(ranks_of(net.graph), 1);
  (void)training_updates(Adam{}, net.loss, {.ranks = 3});
  EXPECT_EQ(ranks_of(net.graph), 3);
  Graph loaded;
  load_graph_text(loaded, graph_text(net.graph));
  EXPECT_EQ(ranks_of(loaded), 3);
  EXPECT_EQ(graph_digest(loaded), graph_digest(net.graph));
}

TEST(UpdatesOfRanks, ReplaceTheUpdatesOfMovingAverages) {
  Averaged net;
  const Operation before = net.graph.operations(kUpdateOperations)[0];
  (void)training_updates(Sgd{}, net.loss, {.ranks = 3});
  ASSERT_EQ(net.graph.operations(kUpdateOperations).size(), 1U);
  const Operation after = net.graph.operations(kUpdateOperations)[0];
  EXPECT_NE(before, after);
  EXPECT_EQ(after.node().inputs()[1].shape(), (Shape{3, 2}));
  EXPECT_EQ(net.communications(), 2) << "a gradient and a statistic";
  // Updates by another loss leave them as they are.
  (void)training_updates(Sgd{}, net.loss, {.ranks = 3});
  EXPECT_EQ(net.graph.operations(kUpdateOperations)[0], after);
}

TEST(UpdatesOfRanks, TakeAFedRateOfTheLastRankAndAnyOtherAsItIs) {
  Averaged fed, fixed;
  const Value rate = placeholder(fed.graph, "rate", {});
  (void)training_updates({{.variables = "w", .optimizer = Sgd{.learning_rate = rate * 2.0F}}}, fed.loss, {.ranks = 2});
  EXPECT_EQ(fed.communications(), 3);
  const Value of_variable = weight(fixed.graph, "rate", {});
  (void)training_updates(Sgd{.learning_rate = of_variable}, fixed.loss, {.ranks = 2}, {fixed.w});
  EXPECT_EQ(fixed.communications(), 2);
}

TEST(UpdatesOfRanks, BelowOneOrOfSeveralNumbersAreRefused) {
  Averaged net;
  EXPECT_THAT(net.refusal({.ranks = 0}), HasSubstr("SF-E036"));
  (void)training_updates(Sgd{}, net.loss, {.ranks = 2});
  EXPECT_THAT(net.refusal({.ranks = 3}), HasSubstr("SF-E036"));
  EXPECT_THAT(net.refusal({}), HasSubstr("SF-E036"));
}

TEST(UpdatesOfRanks, BehindUpdatesOfAnotherNumberAreRefused) {
  Averaged net;
  (void)training_updates(Sgd{}, net.loss);
  EXPECT_THAT(net.refusal({.ranks = 3}), AllOf(HasSubstr("SF-E036"), HasSubstr("updates of 1")));
  const Value v = weight(net.graph, "v", {2});
  (void)training_updates(Sgd{}, reduce_mean(v * net.x), {.ranks = 1}, {v});
}

TEST(UpdatesOfRanks, MoreThanThereMayBeAreRefused) {
  Averaged net;
  EXPECT_THAT(net.refusal({.ranks = static_cast<int>(kMostRanks) + 1}), HasSubstr("SF-E036"));
}

TEST(UpdatesOfRanks, OfAGraphWhoseCollectionSaysNoNumberAreRefused) {
  std::vector<HostTensor> contents;
  contents.push_back(HostTensor::scalar(2.0F));
  for (const std::int64_t number : {std::int64_t{0}, std::int64_t{-1}, (std::int64_t{1} << 32) + 2}) {
    contents.push_back(HostTensor::scalar(number));
  }
  contents.push_back(HostTensor::of<std::int64_t>({2}, {2, 2}));
  for (HostTensor& content : contents) {
    Averaged net;
    net.graph.add_to_collection(kRanks, constant(net.graph, std::move(content)));
    EXPECT_THAT(net.refusal({.ranks = 2}), AllOf(HasSubstr("SF-E036"), HasSubstr("the collection 'ranks'")));
    EXPECT_THROW((void)ranks_of(net.graph), ArgumentError);
  }
}

TEST(UpdatesOfRanks, OfMovingAveragesFollowWhatTheOldOnesDid) {
  Averaged net;
  const Operation before = net.graph.operations(kUpdateOperations)[0];
  const Value seen = weight(net.graph, "seen", {2});
  const Operation first = assign(seen, net.w), early = assign_add(seen, net.w), late = assign(seen, seen);
  net.graph.add_control_edge(first, before);
  net.graph.add_order_edge(early, before);
  net.graph.add_order_edge(before, late);
  (void)training_updates(Sgd{}, net.loss, {.ranks = 3}, {net.w});
  const Operation after = net.graph.operations(kUpdateOperations)[0];
  EXPECT_THAT(after.node().control_inputs(), ElementsAre(&first.node()));
  EXPECT_THAT(after.node().order_inputs(), ElementsAre(&early.node()));
  EXPECT_THAT(late.node().order_inputs(), ElementsAre(&before.node(), &after.node()));
}

TEST(RankDifferences, AreFoundBelowAnyNumberOfNodes) {
  Averaged net;
  Value of_weight = net.w;
  for (int i = 0; i < 100'000; ++i) of_weight = -of_weight;
  RankDifferences differences([](const Node& node) { return node.inputs(); });
  EXPECT_FALSE(differences.differs(of_weight.node()));
  EXPECT_TRUE(differences.differs((of_weight * net.x).node()));
}

TEST(UpdatesOfRanks, ThatAreRefusedLeaveTheUpdatesOfMovingAverages) {
  Averaged net;
  const Operation before = net.graph.operations(kUpdateOperations)[0];
  EXPECT_THROW(net.graph.all_or_nothing([&] {
    (void)training_updates(Sgd{}, net.loss, {.ranks = 2});
    throw ArgumentError("no");
  }),
               ArgumentError);
  EXPECT_EQ(net.graph.operations(kUpdateOperations)[0], before);
  EXPECT_EQ(ranks_of(net.graph), 1);
}

TEST(MovingAverage, OfRowsTakesOneAfterTheOther) {
  Graph graph;
  const Value rows = placeholder(graph, "rows", {3, 2}), average = weight(graph, "average", {2});
  const Value one = placeholder(graph, "one", {2}), single = weight(graph, "single", {2});
  const Value yes = constant(graph, HostTensor::scalar(true));
  const Operation all = update_moving_average(average, rows, yes, 0.9F);
  const Operation each = update_moving_average(single, one, yes, 0.9F);
  Session session(graph, {.threads = 1, .check_schedules = true});
  session.initialize();
  const HostTensor three = HostTensor::of<float>({3, 2}, {1, 2, 3, 5, 8, 13});
  session.run({{rows, three}}, {.targets = {all}});
  for (std::size_t row = 0; row < 3; ++row) {
    HostTensor of_row(Dtype::f32, {2});
    std::copy_n(three.values<float>().begin() + static_cast<std::ptrdiff_t>(2 * row), 2,
                of_row.values<float>().begin());
    session.run({{one, of_row}}, {.targets = {each}});
  }
  EXPECT_TRUE(bitwise_equal(session.read(average), session.read(single)));
}

}  // namespace
}  // namespace sectionflow::updates_of_ranks_tests
