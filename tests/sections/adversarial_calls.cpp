// Calls that are legal but unusual, and illegal ones that look usual.

#include <gtest/gtest.h>

#include "base/bytes.h"
#include "graph/ops/update.h"
#include "tests/sections/small_net.h"

namespace sectionflow::testing {
namespace {

// ---- Managers and sessions.

TEST(Adversarial, ASecondManagerMayFollowAFirstThatIsGone) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2, 3});
  Value a, b;
  {
    GraphSectionManager first(graph);
    auto section = first.new_section();
    a = mean(dense(x, {.features = 2, .name = "a"}));
  }
  GraphSectionManager second(graph);
  {
    auto section = second.new_section();
    b = mean(dense(x, {.features = 2, .name = "b"}));
  }
  second.add_training_ops(Sgd{.learning_rate = 1.0F}, b, {.variables = {kernel_of(graph, "b")}});
  second.prepare_training();
  Session session(graph, {.threads = 1, .check_schedules = true});
  session.initialize();
  const HostTensor data = random_images({2, 3}, 1, 0);
  const HostTensor a_before = session.read(kernel_of(graph, "a")), b_before = session.read(kernel_of(graph, "b"));
  (void)second.run_full_cycle(session, std::vector<Value>{}, {{x, data}});
  EXPECT_TRUE(bitwise_equal(a_before, session.read(kernel_of(graph, "a"))));
  EXPECT_FALSE(bitwise_equal(b_before, session.read(kernel_of(graph, "b"))));
}

TEST(Adversarial, TwoSessionsOfOneManagerAreIndependent) {
  SmallTraining t, alone;
  Session other(t.graph, {.threads = 2, .check_schedules = true});
  other.initialize();
  (void)t.manager.run_forward(*t.session, {t.net.loss}, t.net.feeds());
  for (int i = 0; i < 2; ++i) (void)t.manager.run_full_cycle(other, {t.net.loss}, t.net.feeds());
  t.manager.run_backward(*t.session);
  (void)alone.manager.run_full_cycle(*alone.session, {alone.net.loss}, alone.net.feeds());
  EXPECT_EQ(first_difference(alone.state(), t.state()), "");
  (void)alone.manager.run_full_cycle(*alone.session, {alone.net.loss}, alone.net.feeds());
  EXPECT_EQ(first_difference(alone.state(), {read_variables(other), {}}), "");
}

TEST(Adversarial, EmptySectionAfterTheTrainingOperations) {
  Graph graph;
  GraphSectionManager manager(graph);
  SmallNet net(graph, manager);
  manager.add_training_ops(Sgd{}, net.loss);
  { auto section = manager.new_section(); }
  manager.prepare_training();
  EXPECT_TRUE(manager.section(4).tensors_to_feed().empty());
  EXPECT_TRUE(manager.section(4).training_operations().empty());
  Session session(graph, {.threads = 1, .check_schedules = true});
  session.initialize();
  (void)manager.run_full_cycle(session, {net.loss}, net.feeds());
}

TEST(Adversarial, PlanOfACycleWithSummariesIsThatOfTheRun) {
  Graph graph;
  GraphSectionManager manager(graph);
  SmallNet net(graph, manager);
  manager.add_training_ops(Sgd{}, net.loss, {.summaries = true});
  manager.prepare_training();
  Session session(graph, {.threads = 1});
  session.initialize();
  const ProgramReport planned = manager.plan(session, {net.loss}, net.types(6));
  Trace trace;
  session.set_trace(&trace);
  (void)manager.run_full_cycle(session, {net.loss}, net.feeds());
  EXPECT_EQ(trace.events().size(), static_cast<std::size_t>(planned.num_steps));
  EXPECT_EQ(session.statistics().planned_peak_bytes, planned.planned_peak_bytes);
}

TEST(Adversarial, BackwardHalfWithFetchesMeasuresWhatItPlans) {
  SmallTraining t;
  t.session->set_measuring(true);
  (void)t.manager.run_forward(*t.session, {t.net.loss}, t.net.feeds());
  (void)t.manager.run_backward(*t.session, std::vector<std::vector<Value>>{{t.net.convolved[2]}});
  EXPECT_EQ(t.session->statistics().measured_peak_bytes, t.session->statistics().planned_peak_bytes);
}

TEST(Adversarial, BackwardHalfThatIsLowerThanItsForwardHalfMeasuresWhatItPlans) {
  Graph graph;
  GraphSectionManager manager(graph);
  SmallNet net(graph, manager);
  manager.add_training_ops(Sgd{}, net.loss, {.variables = {kernel_of(graph, "dense")}});
  manager.prepare_training();
  Session session(graph, {.device_memory = 64_MiB, .threads = 1, .check_schedules = true});
  session.initialize();
  session.set_measuring(true);
  (void)manager.run_forward(session, {net.loss}, net.feeds());
  (void)manager.run_backward(session, std::vector<std::vector<Value>>{{}, {}, {}, {net.logits}});
  EXPECT_EQ(session.statistics().measured_peak_bytes, session.statistics().planned_peak_bytes);
}

// ---- Illegal.

TEST(Adversarial, ValuesAndOperationsOfAnotherGraphAreRefused) {
  SmallTraining a, b;
  (void)b.graph.scope("more");
  EXPECT_THROW(a.session->run(a.net.feeds(), {.targets = b.manager.training_operations()}), ArgumentError);
  EXPECT_THROW(a.session->run(a.net.feeds(), {.targets = {Operation()}}), ArgumentError);
  EXPECT_THROW((void)a.manager.evaluated_in(b.net.loss), ArgumentError);
  EXPECT_THROW((void)a.manager.evaluated_in(Value()), ArgumentError);
  auto feed = a.manager.section(0).tensors_to_feed();
  feed.push_back(b.net.convolved[0]);
  EXPECT_THROW(a.manager.section(0).set_tensors_to_feed(feed), ArgumentError);
  auto cache = a.manager.section(0).tensors_to_cache();
  cache.push_back(b.manager.section(1).tensors_to_cache().at(0));
  EXPECT_THROW(a.manager.section(0).set_tensors_to_cache(cache), ArgumentError);
  EXPECT_THROW((void)a.manager.run_full_cycle(*a.session, {Value(a.net.loss.node(), 3)}, a.net.feeds()), ArgumentError);
  EXPECT_THROW((void)a.session->run({Value(a.net.loss.node(), 3)}, a.net.feeds()), ArgumentError);
  (void)a.manager.run_full_cycle(*a.session, {a.net.loss}, a.net.feeds());
}

TEST(Adversarial, LossOrStepCounterOfAnotherGraphIsRefusedAndTheRightOneStillWorks) {
  Graph graph, other;
  GraphSectionManager manager(graph), other_manager(other);
  SmallNet net(graph, manager), foreign(other, other_manager);
  EXPECT_THROW((void)manager.add_training_ops(Sgd{}, foreign.loss), ArgumentError);
  const Value step = variable("step", fill(other, {}, 0, Dtype::i64), {.trainable = false});
  EXPECT_THROW((void)manager.add_training_ops(Sgd{}, net.loss, {.global_step = step}), ArgumentError);
  manager.add_training_ops(Sgd{}, net.loss);
  manager.prepare_training();
}

TEST(Adversarial, InitialValueThatReadsAVariableIsRefused) {
  Graph graph;
  const Value a = variable("a", fill(graph, {2}, 3.0));
  EXPECT_THROW((void)variable("b", a * 2.0F), ArgumentError);
}

TEST(Adversarial, BackwardHalfOfAnotherManagerIsRefused) {
  SmallTraining a, b;
  (void)b.manager.run_forward(*b.session, {b.net.loss}, b.net.feeds());
  EXPECT_THROW((void)a.manager.run_backward(*b.session), ArgumentError);
  b.manager.run_backward(*b.session);
}

TEST(Adversarial, UpdateOperationsThatAreAddedAfterTheTrainingOperationsRunToo) {
  Graph graph;
  GraphSectionManager manager(graph);
  SmallNet net(graph, manager);
  manager.add_training_ops(Sgd{}, net.loss);
  const Value count = variable("count", fill(graph, {}, 0), {.trainable = false});
  graph.add_to_collection(kUpdateOperations, assign_add(count, fill(graph, {}, 1)));
  manager.prepare_training();
  Session session(graph, {.threads = 1});
  session.initialize();
  for (int cycle = 0; cycle < 2; ++cycle) (void)manager.run_full_cycle(session, {net.loss}, net.feeds());
  EXPECT_EQ(session.read(count).item<float>(), 2.0F);
}

}  // namespace
}  // namespace sectionflow::testing
