// Misuse while the graph is built.

#include "autodiff/optimizers.h"
#include "graph/ops/identities.h"
#include "graph/ops/random.h"
#include "graph/ops/unary.h"
#include "tests/misuse/misuse_case.h"

namespace sectionflow::testing {
namespace {

TEST(MisuseGraph, ACycleIsToldWithTheSectionsOfItsNodes) {
  Graph graph;
  GraphSectionManager manager(graph);
  const Value x = placeholder(graph, "x", {4, 3});
  Value a, b, loss;
  {
    auto section = manager.new_section("stem");
    a = relu(x);
  }
  {
    auto section = manager.new_section();
    b = relu(a);
    loss = mean(dense(b, {.features = 1}));
  }
  const Value c = relu(b);
  manager.add_training_ops(Sgd{}, loss);
  graph.add_control_edge(Operation(c), Operation(a));
  const int prepared = __LINE__ + 2;
  expect_refused<ArgumentError>(
      state_of(graph, manager), [&] { manager.prepare_training(); },
      "SF-E011 ArgumentError: the graph has a cycle: relu -> relu_1 -> relu_2 -> relu"
      "\n  where:   " +
          line(prepared) +
          "\n  sections: relu: section 0 'stem', relu_1: section 1, relu_2: outside"
          "\n  hint:    a node cannot wait for itself: drop one of its control edges, or read the "
          "variable before its update");
}

TEST(MisuseGraph, ShapesThatDoNotFitAreRefusedWhereTheOperationIsMade) {
  Graph graph;
  const Value a = placeholder(graph, "a", {2, 3}), b = placeholder(graph, "b", {4});
  expect_refused<ShapeError>(
      state_of(graph), [&] { (void)add(a, b); },
      "SF-E020 ShapeError: add 'add': shapes [2,3] and [4] do not broadcast: dimension -1 is 3 against 4, wanted equal "
      "or 1"
      "\n  where:   " +
          line(__LINE__ - 4) + "\n  inputs:  'a' f32[2,3] (placeholder), 'b' f32[4] (placeholder)");
  EXPECT_EQ(add(a, a).name(), "add") << "a refused operation takes no name";
}

TEST(MisuseGraph, DtypesThatDoNotFitAreRefusedWithACast) {
  Graph graph;
  const Value a = placeholder(graph, "a", {2}), b = placeholder(graph, "b", {2}, Dtype::i32);
  expect_refused<ArgumentError>(
      state_of(graph), [&] { (void)add(a, b); },
      "SF-E010 ArgumentError: add 'add' got f32[2] and i32[2]; wanted equal dtypes; try cast(x, Dtype::f32)"
      "\n  where:   " +
          line(__LINE__ - 3) + "\n  inputs:  'a' f32[2] (placeholder), 'b' i32[2] (placeholder)");
  EXPECT_EQ(add(a, a).name(), "add");
}

TEST(MisuseGraph, ARefusedLayerLeavesNoNodeAndNoName) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2, 3});
  const Initializer wrong = [](const InitializerRequest& r) { return fill(r.graph, {1}, 0); };
  expect_refused<ShapeError>(
      state_of(graph), [&] { (void)dense(x, {.features = 4, .bias_initializer = wrong}); },
      "SF-E020 ShapeError: parameter 'bias': the initialiser gave [1]; wanted [4]"
      "\n  where:   " +
          line(__LINE__ - 3) + "\n  inputs:  'x' f32[2,3] (placeholder)");
  Graph fresh;
  const Value same = placeholder(fresh, "x", {2, 3});
  (void)dense(x, {.features = 4});
  (void)dense(same, {.features = 4});
  EXPECT_EQ(StateHash().add(graph).value(), StateHash().add(fresh).value());
}

TEST(MisuseGraph, AnExceptionOfAUsersInitialiserLeavesNothingEither) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2, 3});
  const Initializer throwing = [](const InitializerRequest& r) -> Value {
    (void)fill(r.graph, {1}, 0);
    throw std::runtime_error("the user's own");
  };
  const auto before = state_of(graph)();
  EXPECT_THROW((void)dense(x, {.features = 4, .bias_initializer = throwing}), std::runtime_error);
  EXPECT_EQ(state_of(graph)(), before);
  EXPECT_EQ(dense(x, {.features = 4}).name(), "dense/bias_add");
}

TEST(MisuseGraph, WhatIsAddedAllOrNothingIsTakenOutWhole) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2, 3});
  const Value twin = relu(x, Where::here());
  const auto before = state_of(graph)();
  EXPECT_THROW(graph.all_or_nothing([&] {
    const auto scope = graph.scope("block");
    const auto group = graph.enter_group(graph.new_group("lost"));
    const Value y = relu(random_normal(graph, {2, 3}) + x);
    graph.add_control_edge(Operation(y), Operation(twin));
    graph.add_to_collection(kUpdateOperations, Operation(twin));
    graph.add_to_collection("own", y);
    (void)variable("w", fill(graph, {2}, 0));
    throw std::runtime_error("stop");
  }),
               std::runtime_error);
  EXPECT_EQ(state_of(graph)(), before);
  EXPECT_TRUE(graph.values("own").empty());
  EXPECT_EQ(graph.current_group(), kNoGroup);
  EXPECT_EQ(relu(x).name(), "relu_1");
  const auto scope = graph.scope("block");
  EXPECT_EQ(relu(x).name(), "block/relu");
}

TEST(MisuseGraph, AVariableBehindAStopIsToldWithTheOperationThatStopsTheGradient) {
  Graph graph;
  const int made = __LINE__ + 1;
  const Value w = variable("w", fill(graph, {3}, 0));
  const int stopped = __LINE__ + 1;
  const Value constant_part = stop_gradient(tanh(w));
  const int summed = __LINE__ + 1;
  const Value loss = reduce_sum(square(constant_part));
  expect_refused<ArgumentError>(
      state_of(graph), [&] { (void)minimize(Sgd{}, loss); },
      "SF-E030 ArgumentError: variable 'w' is not reached from the loss 'reduce_sum': stop_gradient 'stop_gradient' "
      "passes no gradient on"
      "\n  where:   " +
          line(__LINE__ - 4) + "\n  variable: " + line(made) + "\n  loss:    " + line(summed) +
          "\n  stopped: " + line(stopped) +
          "\n  path:    w -> tanh -> stop_gradient -> square -> reduce_sum"
          "\n  hint:    leave it out of the variables to train, or let another way lead to the loss");
  EXPECT_EQ(minimize(Sgd{}, loss + mean(w)).size(), 1U);
}

TEST(MisuseGraph, AnOperationWithoutAGradientIsToldWithTheWayToTheLoss) {
  Graph graph;
  const Value w = variable("w", fill(graph, {4, 3}, 0));
  const Value logits = placeholder(graph, "logits", {4, 3});
  const Value labels = tanh(w);
  const int made = __LINE__ + 1;
  const Value loss = mean(softmax_cross_entropy(logits, labels));
  expect_refused<ArgumentError>(
      state_of(graph), [&] { (void)minimize(Sgd{}, loss); },
      "SF-E031 ArgumentError: softmax_cross_entropy 'softmax_cross_entropy': labels 'tanh' depend on a variable to "
      "train; gradients with respect to labels are not supported"
      "\n  where:   " +
          line(made) + "\n  call:    " + line(__LINE__ - 4) +
          "\n  path:    w -> tanh -> softmax_cross_entropy -> reduce_mean"
          "\n  hint:    put stop_gradient() around them, or compute the loss from log_softmax");
  EXPECT_EQ(minimize(Sgd{}, mean(softmax_cross_entropy(w, stop_gradient(labels)))).size(), 1U);
}

TEST(MisuseGraph, AVariableThatTheLossDoesNotReachIsNamedAndNoGradientStays) {
  Graph graph;
  GraphSectionManager manager(graph);
  SmallNet net(graph, manager);
  const int made = __LINE__ + 1;
  const Value lonely = variable("lonely", fill(graph, {3}, 0));
  const std::string loss = net.loss.node().place();
  expect_refused<ArgumentError>(
      state_of(graph, manager), [&] { manager.add_training_ops(Sgd{}, net.loss); },
      "SF-E030 ArgumentError: variable 'lonely' is not reached from the loss 'reduce_mean_1'"
      "\n  where:   " +
          line(__LINE__ - 3) + "\n  variable: " + line(made) + "\n  loss:    " + loss +
          "\n  hint:    leave it out of the variables to train, or use it in the model");
  std::vector<Value> reached;
  for (Value variable : graph.values(kTrainableVariables)) {
    if (variable != lonely) reached.push_back(variable);
  }
  manager.add_training_ops(Sgd{}, net.loss, {.variables = reached});
  manager.prepare_training();
  Session session(graph, {.threads = 1});
  session.initialize();
  (void)manager.run_full_cycle(session, {net.loss}, net.feeds());
  EXPECT_EQ(session.completed_cycles(), 1U);
}

TEST(MisuseGraph, ARefusedOptimiserLeavesNeitherGradientsNorSlots) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2, 3});
  const Value loss = mean(dense(x, {.features = 2}));
  const Value rate = fill(graph, {2}, 0.1);
  const auto before = state_of(graph)();
  EXPECT_THROW((void)minimize(Adam{.learning_rate = rate}, loss), ShapeError);
  EXPECT_EQ(state_of(graph)(), before);
  EXPECT_EQ(minimize(Adam{}, loss).size(), 3U);
}

}  // namespace
}  // namespace sectionflow::testing
