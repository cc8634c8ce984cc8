// Whatever is fetched from a full cycle has the bytes of whole-graph training, and fetching changes nothing.

#include <gtest/gtest.h>

#include "graph/ops/arithmetic.h"
#include "graph/ops/indexing.h"
#include "graph/ops/unary.h"
#include "tests/sections/small_net.h"

namespace sectionflow::testing {
namespace {

TEST(Fetches, EveryFloatValueOfTheGraphGivesTheBytesOfTheWholeGraph) {
  SmallTraining a, b;
  std::vector<Value> of_a, of_b;
  for (NodeId id = 0; id < a.graph.num_nodes(); ++id) {
    Node& node = a.graph.node(id);
    const bool initial = node.name().find("initial_value") != std::string::npos;
    for (int output = 0; output < static_cast<int>(node.output_types().size()) && !initial; ++output) {
      of_a.push_back(node.output(output));
      of_b.push_back(b.graph.node(id).output(output));
    }
  }
  ASSERT_GT(of_a.size(), 60U);
  const auto whole = a.session->run(of_a, a.net.feeds(), {.targets = a.manager.training_operations()});
  const auto sections = b.manager.run_full_cycle(*b.session, of_b, b.net.feeds());
  for (std::size_t i = 0; i < of_a.size(); ++i) EXPECT_TRUE(bitwise_equal(whole[i], sections[i])) << of_a[i].name();
  EXPECT_EQ(first_difference(a.state(), b.state()), "");
  // One at a time too, since what is fetched together is kept together.
  for (std::size_t i = 0; i < of_a.size(); i += 7) {
    const auto one = a.session->run({of_a[i]}, a.net.feeds(), {.targets = a.manager.training_operations()});
    const auto other = b.manager.run_full_cycle(*b.session, {of_b[i]}, b.net.feeds());
    EXPECT_TRUE(bitwise_equal(one[0], other[0])) << of_a[i].name();
  }
  EXPECT_EQ(first_difference(a.state(), b.state()), "");
}

TEST(Fetches, FetchedVariableGivesItsValueFromBeforeTheUpdate) {
  SmallTraining t;
  for (Value variable : t.graph.values(kVariables)) {
    const HostTensor before = t.session->read(variable);
    const auto [fetched] = t.manager.run_full_cycle(*t.session, {variable}, t.net.feeds());
    EXPECT_TRUE(bitwise_equal(before, fetched)) << variable.name();
  }
}

TEST(Fetches, OperationsOutsideThatOnlyAFetchNeedsRunOnceInTheBackwardRunOfTheLowestSectionTheyRead) {
  SmallTraining t;
  const Value outside = reduce_sum(t.net.outputs[1]) + reduce_sum(t.net.outputs[2]);
  EXPECT_EQ(t.manager.evaluated_in(outside), 1);
  const Value accuracy = mean(cast(equal(argmax(t.net.logits), t.net.labels), Dtype::f32));
  EXPECT_EQ(t.manager.evaluated_in(accuracy), 3);
  const auto [sum, share] = t.manager.run_full_cycle(*t.session, {outside, accuracy}, t.net.feeds());
  EXPECT_EQ(t.session->executions(outside.node()), 1);
  EXPECT_EQ(t.session->executions(accuracy.node()), 1);
  EXPECT_GE(share.item<float>(), 0.0F);
  EXPECT_LE(share.item<float>(), 1.0F);
  SmallTraining other;
  const Value same = reduce_sum(other.net.outputs[1]) + reduce_sum(other.net.outputs[2]);
  const auto [whole] = other.session->run({same}, other.net.feeds());
  EXPECT_TRUE(bitwise_equal(sum, whole));
}

TEST(Fetches, NestedFetchesComeBackInTheSameShape) {
  SmallTraining t;
  const std::map<std::string, std::vector<Value>> nested = {{"a", {t.net.loss, t.net.logits}}, {"b", {}}};
  const auto fetched = t.manager.run_full_cycle(*t.session, nested, t.net.feeds());
  ASSERT_EQ(fetched.size(), 2U);
  EXPECT_EQ(fetched.at("a")[0].shape(), Shape{});
  EXPECT_EQ(fetched.at("a")[1].shape(), (Shape{6, 5}));
  EXPECT_TRUE(fetched.at("b").empty());
}

TEST(Fetches, SummariesHoldAHistogramOfEveryGradient) {
  Graph graph;
  GraphSectionManager manager(graph);
  SmallNet net(graph, manager);
  manager.add_training_ops(Sgd{}, net.loss, {.summaries = true});
  manager.prepare_training();
  Session session(graph, {.threads = 1});
  session.initialize();
  const auto [loss] = manager.run_full_cycle(session, {net.loss}, net.feeds());
  const auto variables = graph.values(kTrainableVariables);
  ASSERT_EQ(manager.gradient_summaries().size(), variables.size());
  for (std::size_t i = 0; i < variables.size(); ++i) {
    EXPECT_EQ(manager.gradient_summaries()[i].variable, variables[i].name());
    EXPECT_EQ(manager.gradient_summaries()[i].histogram.num, static_cast<double>(variables[i].shape().num_elements()));
  }
}

TEST(Fetches, HeldTensorsAreNotComputedAgainAndChangeNoBit) {
  SmallTraining a, b;
  (void)a.manager.run_full_cycle(*a.session, {a.net.loss}, a.net.feeds());
  EXPECT_EQ(a.session->executions(a.net.convolved[0].node()), 2);

  GraphSection& section = b.manager.section(0);
  std::vector<Value> feed = section.tensors_to_feed();
  feed.push_back(b.net.convolved[0]);
  section.set_tensors_to_feed(feed);
  std::vector<Value> cache = b.manager.section(2).tensors_to_cache();
  b.manager.section(2).set_tensors_to_cache(cache);
  (void)b.manager.run_full_cycle(*b.session, {b.net.loss}, b.net.feeds());
  EXPECT_EQ(b.session->executions(b.net.convolved[0].node()), 1);
  EXPECT_EQ(first_difference(a.state(), b.state()), "");
  // The choice was for one cycle.
  (void)b.manager.run_full_cycle(*b.session, {b.net.loss}, b.net.feeds());
  EXPECT_EQ(b.session->executions(b.net.convolved[0].node()), 3);
  section.set_tensors_to_feed(feed, Hold::always);
  for (int i = 0; i < 2; ++i) (void)b.manager.run_full_cycle(*b.session, {b.net.loss}, b.net.feeds());
  EXPECT_EQ(b.session->executions(b.net.convolved[0].node()), 5);
  EXPECT_THROW(section.set_tensors_to_feed({}), ArgumentError);
  EXPECT_THROW(section.set_tensors_to_cache({b.net.convolved[0]}), ArgumentError);
}

}  // namespace
}  // namespace sectionflow::testing
