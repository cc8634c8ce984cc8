// Graphs and calls that are legal but unusual, and illegal ones that look usual.

#include <gtest/gtest.h>

#include "base/bytes.h"
#include "graph/ops/cast.h"
#include "graph/ops/update.h"
#include "tests/sections/small_net.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow::testing {
namespace {

/// A small net whose builder may add to it before training operations are added.
TrainingCase small_case(std::string name, const std::function<void(SmallNet&, Graph&, GraphSectionManager&)>& extend,
                        const TrainingOptions& options = {}, bool is_training = true) {
  return {std::move(name), [=](Graph& graph, GraphSectionManager& manager) {
            SmallNet net(graph, manager);
            extend(net, graph, manager);
            manager.add_training_ops(Adam{.learning_rate = 1e-2F}, net.loss, options);
            manager.prepare_training();
            return TrainingNet{net.loss, net.random_feeds(is_training)};
          }};
}

/// The same value, or operation, of another graph that was built alike.
Value same_in(const Graph& graph, Value value) {
  return graph.node(value.node().id()).output(value.output());
}

Value counter(Graph& graph, std::string_view name) {
  return variable(name, fill(graph, {}, 0.0), {.trainable = false});
}

Value kernel_of(const Graph& graph, std::string_view layer) {
  return graph.find(text_of(layer, "/kernel")).output();
}

// ---- Fetches that read variables.

TEST(Adversarial, FetchOutsideThatReadsALowSectionAndAVariableOfAHighOneSeesTheOldVariable) {
  SmallTraining a, b;
  const auto build = [](SmallTraining& t) {
    return reduce_sum(t.net.outputs[0]) + reduce_sum(kernel_of(t.graph, "dense"));
  };
  const Value of_a = build(a), of_b = build(b);
  const auto [whole] = a.session->run({of_a}, a.net.feeds(), {.targets = a.manager.training_operations()});
  const auto [cycle] = b.manager.run_full_cycle(*b.session, {of_b}, b.net.feeds());
  EXPECT_TRUE(bitwise_equal(whole, cycle)) << whole.item<float>() << " " << cycle.item<float>();
  EXPECT_EQ(first_difference(a.state(), b.state()), "");
}

TEST(Adversarial, FetchOnlyOperationsOfAHighSectionRunInALowRunWithTheOldVariables) {
  SmallTraining a, b;
  const auto build = [](SmallTraining& t) {
    Value in_section;
    {
      const auto group = t.graph.enter_group(t.manager.section(2).group());
      in_section = reduce_sum(kernel_of(t.graph, "conv2d_2")) * reduce_sum(t.net.outputs[1]);
    }
    return in_section + reduce_sum(t.net.outputs[0]);
  };
  const Value of_a = build(a), of_b = build(b);
  const auto [whole] = a.session->run({of_a}, a.net.feeds(), {.targets = a.manager.training_operations()});
  const auto [cycle] = b.manager.run_full_cycle(*b.session, {of_b}, b.net.feeds());
  EXPECT_TRUE(bitwise_equal(whole, cycle)) << whole.item<float>() << " " << cycle.item<float>();
  EXPECT_EQ(first_difference(a.state(), b.state()), "");
}

TEST(Adversarial, BackwardHalfMayFetchTheInteriorOfAHighSectionInALowRun) {
  SmallTraining a, b;
  const Value gradient = a.manager.section(3).tensors_to_cache().at(0);
  const auto whole =
      a.session->run({a.net.convolved[2], gradient}, a.net.feeds(), {.targets = a.manager.training_operations()});
  (void)b.manager.run_forward(*b.session, {b.net.loss}, b.net.feeds());
  const auto fetched = b.manager.run_backward(
      *b.session, std::vector<std::vector<Value>>{{b.net.convolved[2]}, {same_in(b.graph, gradient)}});
  EXPECT_TRUE(bitwise_equal(whole[0], fetched[0][0]));
  EXPECT_TRUE(bitwise_equal(whole[1], fetched[1][0]));
  EXPECT_EQ(first_difference(a.state(), b.state()), "");
}

// ---- Control edges.

TEST(Adversarial, ControlEdgeFromAPrintOutsideIsKeptInTheForwardPass) {
  SmallTraining t;
  const Value shown = print(reduce_sum(t.net.images), {.label = "shown"});
  t.graph.add_control_edge(Operation(shown), Operation(t.net.convolved[1]));
  Trace trace;
  t.session->set_trace(&trace);
  (void)t.manager.run_full_cycle(*t.session, {t.net.loss}, t.net.feeds());
  std::vector<NodeId> order;
  for (const Trace::Event& event : trace.events()) order.push_back(event.node);
  const auto place = [&](Value value) {
    return std::find(order.begin(), order.end(), value.node().id()) - order.begin();
  };
  EXPECT_LT(place(shown), place(t.net.convolved[1]));
  EXPECT_EQ(t.session->executions(shown.node()), 1);
}

TEST(Adversarial, UpdateBeforeAForwardOperationRunsOnce) {
  const TrainingCase counted = small_case("counted", [](SmallNet& net, Graph& graph, GraphSectionManager&) {
    const Operation step = assign_add(counter(graph, "count"), fill(graph, {}, 1.0));
    graph.add_control_edge(step, Operation(net.convolved[1]));
  });
  EXPECT_EQ(first_difference(train(counted, How::whole, {.steps = 3}), train(counted, How::sections, {.steps = 3})),
            "");
}

TEST(Adversarial, UpdateThatWaitsForAGroupOfUpdatesRunsOnce) {
  expect_exact(small_case("grouped",
                          [](SmallNet&, Graph& graph, GraphSectionManager&) {
                            const Value a = counter(graph, "a"), b = counter(graph, "b");
                            const Operation first = assign_add(a, fill(graph, {}, 1.0));
                            const Operation both = group(graph, {first});
                            const Operation second = assign_add(b, fill(graph, {}, 2.0));
                            graph.add_control_edge(both, second);
                            graph.add_to_collection(kUpdateOperations, second);
                          }),
               {.steps = 3});
}

TEST(Adversarial, GroupsAndForwardOperationsAmongTheUpdateOperations) {
  Graph graph;
  GraphSectionManager manager(graph);
  SmallNet net(graph, manager);
  const Value a = counter(graph, "a");
  graph.add_to_collection(kUpdateOperations, group(graph, {assign_add(a, fill(graph, {}, 1.0))}));
  const Value shown = print(reduce_sum(net.convolved[1]), {.label = "shown"});
  graph.add_to_collection(kUpdateOperations, Operation(shown));
  manager.add_training_ops(Sgd{}, net.loss);
  manager.prepare_training();
  Session session(graph, {.threads = 1, .check_schedules = true});
  session.initialize();
  (void)manager.run_full_cycle(session, {net.loss}, net.feeds());
  EXPECT_EQ(session.read(a).item<float>(), 1.0F);
  EXPECT_EQ(session.executions(shown.node()), 1);
}

TEST(Adversarial, ControlEdgeThatMakesAnEarlierSectionWaitForALaterOneThroughTheOutsideIsRefused) {
  Graph graph;
  GraphSectionManager manager(graph);
  SmallNet net(graph, manager);
  const Value outside = print(net.outputs[2]);
  // Nothing of section 0 leads to it but data; waiting for it would turn the sections round.
  Value late;
  {
    const auto group = graph.enter_group(manager.section(0).group());
    late = reduce_sum(outside);
  }
  manager.add_training_ops(Sgd{}, net.loss + late * 0.0F);
  EXPECT_THROW(manager.prepare_training(), ArgumentError);
  // The refusal is not forgotten.
  EXPECT_THROW(manager.prepare_training(), ArgumentError);
}

TEST(Adversarial, ControlEdgeAddedAfterARunHoldsInTheNext) {
  SmallTraining t;
  (void)t.manager.run_full_cycle(*t.session, {t.net.loss}, t.net.feeds());
  const Value shown = print(reduce_sum(t.net.images));
  (void)t.manager.run_full_cycle(*t.session, {t.net.loss}, t.net.feeds());
  EXPECT_EQ(t.session->executions(shown.node()), 0);
  t.graph.add_control_edge(Operation(shown), Operation(t.net.convolved[1]));
  (void)t.manager.run_full_cycle(*t.session, {t.net.loss}, t.net.feeds());
  EXPECT_EQ(t.session->executions(shown.node()), 1);
  (void)t.session->run({t.net.loss}, t.net.feeds());
  EXPECT_EQ(t.session->executions(shown.node()), 2);
}

// ---- Updates.

TEST(Adversarial, UpdatesThatReadOtherVariables) {
  expect_exact(small_case("other variables",
                          [](SmallNet& net, Graph& graph, GraphSectionManager&) {
                            const Value low = kernel_of(graph, "conv2d"), high = kernel_of(graph, "dense");
                            const Value copy = variable("copy", fill(graph, high.shape(), 0.0), {.trainable = false});
                            const Value total = counter(graph, "total");
                            // A copy of the trained kernel of the last section, made in the first; a variable that is
                            // never trained.
                            {
                              const auto group = graph.enter_group(net.convolved[0].node().group());
                              graph.add_to_collection(kUpdateOperations, assign(copy, high));
                              graph.add_to_collection(kUpdateOperations, assign_add(total, reduce_sum(copy)));
                            }
                            graph.add_to_collection(kUpdateOperations,
                                                    assign_add(total, reduce_sum(low) + reduce_sum(net.outputs[2])));
                          }),
               {.steps = 4});
}

TEST(Adversarial, PrintThatOnlyAnUpdateReadsIsNotSilent) {
  Graph graph;
  GraphSectionManager manager(graph);
  SmallNet net(graph, manager);
  const Value v = counter(graph, "v");
  Value shown;
  {
    const auto group = graph.enter_group(manager.section(1).group());
    shown = print(reduce_sum(net.convolved[1]), {.label = "only here"});
    graph.add_to_collection(kUpdateOperations, assign(v, shown));
  }
  manager.add_training_ops(Sgd{}, net.loss);
  manager.prepare_training();
  Session session(graph, {.threads = 1});
  session.initialize();
  Trace trace;
  session.set_trace(&trace);
  (void)manager.run_full_cycle(session, {net.loss}, net.feeds());
  bool seen = false;
  for (const Trace::Event& event : trace.events()) {
    if (event.node == shown.node().id() && !seen) {
      seen = true;
      EXPECT_FALSE(event.replay);
    }
  }
  EXPECT_TRUE(seen);
}

TEST(Adversarial, EvaluationModeInAFullCycle) {
  expect_exact(small_case(
                   "no training mode", [](SmallNet&, Graph&, GraphSectionManager&) {}, {}, false),
               {.steps = 3});
}

TEST(Adversarial, OnlySomeSectionsAreTrained) {
  for (const char* layer : {"conv2d", "conv2d_1", "dense"}) {
    expect_exact({layer,
                  [layer](Graph& graph, GraphSectionManager& manager) {
                    TrainingOptions options;
                    auto net = std::make_shared<SmallNet>(graph, manager);
                    options.variables = {kernel_of(graph, layer)};
                    manager.add_training_ops(Sgd{.learning_rate = 0.1F}, net->loss, options);
                    manager.prepare_training();
                    return TrainingNet{net->loss, [net](std::int64_t, FeedStore&) { return net->feeds(); }};
                  }},
                 {.steps = 3});
  }
}

TEST(Adversarial, SectionsThatTheLossDoesNotUseAndSectionsOfConstants) {
  expect_exact({"odd sections",
                [](Graph& graph, GraphSectionManager& manager) {
                  Value constants;
                  {
                    auto section = manager.new_section();
                    constants = fill(graph, {4}, 0.5) * constant(graph, 3.0F);
                  }
                  auto net = std::make_shared<SmallNet>(graph, manager);
                  {
                    auto section = manager.new_section();
                    const Value unused = conv2d(net->outputs[1], {.filters = 2, .kernel_initializer = zeros()});
                    (void)batch_norm(unused, net->is_training);
                  }
                  { auto empty = manager.new_section(); }
                  const Value as_data = cast(net->is_training, Dtype::f32);
                  const Value loss = net->loss + reduce_sum(net->outputs[0] * constants) * 0.01F * as_data;
                  manager.add_training_ops(Sgd{.learning_rate = 0.1F}, loss,
                                           {.variables = {kernel_of(graph, "conv2d"), kernel_of(graph, "dense")}});
                  manager.prepare_training();
                  return TrainingNet{loss, [net](std::int64_t, FeedStore&) { return net->feeds(); }};
                }},
               {.steps = 3});
}

TEST(Adversarial, SeveralLossesAndTheGradientsOfOneThatIsNotTrained) {
  SmallTraining a, b;
  const auto build = [](SmallTraining& t) {
    Value other;
    {
      const auto group = t.graph.enter_group(t.manager.section(1).group());
      other = mean(t.net.outputs[0] * t.net.outputs[0]);
    }
    std::vector<Value> values = gradients(other + t.net.loss, {kernel_of(t.graph, "conv2d"), t.net.images});
    Value total = reduce_sum(values[0]) + reduce_sum(values[1]);
    values.push_back(total);
    values.push_back(t.net.images);
    values.push_back(other);
    return values;
  };
  const auto of_a = build(a), of_b = build(b);
  const auto whole = a.session->run(of_a, a.net.feeds(), {.targets = a.manager.training_operations()});
  const auto cycle = b.manager.run_full_cycle(*b.session, of_b, b.net.feeds());
  for (std::size_t i = 0; i < of_a.size(); ++i) EXPECT_TRUE(bitwise_equal(whole[i], cycle[i])) << of_a[i].name();
  EXPECT_EQ(first_difference(a.state(), b.state()), "");
}

// ---- Managers and sessions.

TEST(Adversarial, ASecondManagerMayFollowAFirstThatIsGone) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2, 3});
  Value a, b;
  {
    GraphSectionManager first(graph);
    auto section = first.new_section();
    a = mean(dense(x, {.units = 2, .name = "a"}));
  }
  GraphSectionManager second(graph);
  {
    auto section = second.new_section();
    b = mean(dense(x, {.units = 2, .name = "b"}));
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
