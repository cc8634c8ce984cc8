// Graphs that are legal but unusual: fetches, control edges, updates.

#include <gtest/gtest.h>

#include "graph/ops/unary.h"
#include "graph/ops/update.h"
#include "tests/sections/small_net.h"

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
                    const Value unused = conv2d(net->outputs[1], {.features = 2, .kernel_initializer = zeros()});
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

}  // namespace
}  // namespace sectionflow::testing
