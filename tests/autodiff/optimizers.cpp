#include "autodiff/optimizers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>

#include "graph/layers.h"
#include "graph/op_def.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/matmul.h"
#include "graph/ops/random.h"
#include "graph/ops/reduce.h"
#include "graph/ops/scaled_update.h"
#include "graph/ops/unary.h"
#include "graph/ops/update.h"
#include "tests/autodiff/weight.h"
#include "tests/support/contains.h"
#include "tests/support/kernel_runner.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tolerance.h"

namespace sectionflow {
namespace {

using namespace testing_support;

std::vector<std::string> names(const std::vector<Value>& values) {
  std::vector<std::string> result;
  for (const Value& value : values) result.push_back(value.name());
  return result;
}
using Names = std::vector<std::string>;

std::vector<Optimizer> every_optimizer() {
  return {Sgd{},   Adam{}, Momentum{}, Adagrad{},   RmsProp{},
          AdamW{}, Lion{}, Lamb{},     Adafactor{}, Adam{.slots = SlotStorage::eight_bit}};
}

TEST(ComputeGradients, TakesAllTrainableVariablesUnlessSomeAreNamed) {
  Graph graph;
  const Value a = weight(graph, "a", {2}), b = weight(graph, "b", {2});
  const Value frozen = variable("frozen", fill(graph, {2}, 1), {.trainable = false});
  const Value loss = reduce_sum(a * b * frozen);
  const auto all = compute_gradients(loss);
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].variable, a);
  EXPECT_EQ(all[1].variable, b);
  EXPECT_EQ(all[0].gradient.shape(), a.shape());
  const auto some = compute_gradients(loss, {frozen});
  ASSERT_EQ(some.size(), 1U);
  EXPECT_EQ(some[0].variable, frozen);
}

TEST(ComputeGradients, GraphWithoutTrainableVariablesIsRefused) {
  Graph graph;
  const Value loss = reduce_sum(variable("frozen", fill(graph, {2}, 1), {.trainable = false}));
  EXPECT_TRUE(contains(error_text<ArgumentError>([&] { compute_gradients(loss); }), "no trainable variable"));
}

TEST(ApplyGradients, PairsThatDoNotFitAreRefusedAndAddNothing) {
  Graph graph, other;
  const Value w = weight(graph, "w", {2}), x = placeholder(graph, "x", {2}), wide = placeholder(graph, "wide", {3});
  const Value whole = placeholder(graph, "whole", {2}, Dtype::i32);
  const Value stranger = weight(other, "stranger", {2}), strange = placeholder(other, "strange", {2});
  const int before = graph.num_nodes();
  const auto refused = [&]<class Wanted>(const std::vector<GradientAndVariable>& pairs, const std::string& part,
                                         Wanted*) {
    for (const Optimizer& optimizer : every_optimizer()) {
      const std::string text = error_text<Wanted>([&] { apply_gradients(optimizer, pairs); });
      EXPECT_TRUE(contains(text, part)) << text;
    }
  };
  constexpr ArgumentError* argument = nullptr;
  constexpr ShapeError* shape = nullptr;
  refused({}, "no gradients", argument);
  refused({{x, x}}, "'x' is no variable", argument);
  refused({{x, Value()}}, "is no variable", argument);
  refused({{Value(), w}}, "variable 'w' has no gradient", argument);
  refused({{x, w}, {x, w}}, "variable 'w' is named twice", argument);
  refused({{strange, w}}, "'w' and its gradient 'strange'", argument);
  refused({{x, w}, {strange, stranger}}, "'stranger'", argument);
  refused({{wide, w}}, "variable 'w' is f32[2], its gradient 'wide' f32[3]", shape);
  refused({{whole, w}}, "its gradient 'whole' i32[2]", shape);
  EXPECT_EQ(graph.num_nodes(), before);
  EXPECT_TRUE(graph.operations(kTrainingOperations).empty());
}

TEST(ApplyGradients, LearningRateThatDoesNotFitIsRefusedAndAddsNothing) {
  Graph graph, other;
  const Value w = weight(graph, "w", {2}), x = placeholder(graph, "x", {2});
  const Value stranger = placeholder(other, "rate", {});
  const int before = graph.num_nodes();
  EXPECT_TRUE(contains(error_text<ShapeError>([&] {
                         apply_gradients(Adam{.learning_rate = x}, {{x, w}});
                       }),
                       "learning_rate 'x' is f32[2]; wanted f32[]"));
  EXPECT_THROW(apply_gradients(Sgd{.learning_rate = stranger}, {{x, w}}), ArgumentError);
  EXPECT_THROW(apply_gradients(Sgd{.learning_rate = Value()}, {{x, w}}), ArgumentError);
  for (float rate : {-0.1F, std::nanf(""), std::numeric_limits<float>::infinity()}) {
    EXPECT_THROW(apply_gradients(Sgd{.learning_rate = rate}, {{x, w}}), ArgumentError) << rate;
  }
  EXPECT_EQ(graph.num_nodes(), before);
}

TEST(ApplyGradients, EachUpdateStandsInTheGroupOfItsVariable) {
  Graph graph;
  const GroupId low = graph.new_group(), high = graph.new_group();
  Value a, b, loss;
  {
    const auto group = graph.enter_group(low);
    a = weight(graph, "a", {2});
  }
  {
    const auto group = graph.enter_group(high);
    b = weight(graph, "b", {2});
    loss = reduce_sum(a * b);
  }
  const auto entered = graph.enter_group(high);  // must not matter
  const auto operations = minimize(Adam{}, loss);
  ASSERT_EQ(operations.size(), 3U);
  EXPECT_EQ(operations[0].node().group(), low);
  EXPECT_EQ(operations[1].node().group(), high);
  EXPECT_EQ(operations[2].node().op().name, "assign_add");
  EXPECT_EQ(operations[2].node().group(), kNoGroup);
  for (const char* slot : {"a/adam_m", "a/adam_v", "a/adam_m/initial_value", "a/adam_m/assign"}) {
    EXPECT_EQ(graph.find(slot).group(), low) << slot;
    EXPECT_EQ(graph.find(slot).phase(), Phase::training) << slot;
  }
  EXPECT_EQ(graph.find("b/adam_v").group(), high);
  EXPECT_EQ(graph.find("adam_steps").group(), kNoGroup);
  EXPECT_EQ(graph.current_group(), high);
}

TEST(ApplyGradients, AllOperationsAreCollectedAndReturned) {
  Graph graph;
  const Value loss = reduce_sum(weight(graph, "a", {2}) * weight(graph, "b", {2}));
  const auto sgd = minimize(Sgd{}, loss);
  EXPECT_EQ(sgd.size(), 2U);
  EXPECT_EQ(graph.operations(kTrainingOperations), sgd);
  const auto adam = minimize(Adam{}, loss);
  EXPECT_EQ(adam.size(), 3U);
  EXPECT_EQ(graph.operations(kTrainingOperations).size(), 5U);
}

TEST(Minimize, WhatTrainsIsOfTheLineThatAskedForItAndAGradientOfItsNodesLine) {
  const auto here = [](int line) { return text_of("optimizers.cpp:", line); };
  Graph graph;
  const Value x = placeholder(graph, "x", {2, 3});
  const Value y = dense(x, {.features = 4});
  const Value loss = mean(y * y);
  const std::vector<Operation> updates = minimize(Adam{}, loss);
  const int line = __LINE__ - 1;
  for (Operation update : updates) EXPECT_EQ(update.node().where().text(), here(line)) << update.name();
  EXPECT_EQ(graph.find("adam_steps").where().text(), here(line));
  int sums = 0;
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    if (node.op().name != "add_n") continue;
    ++sums;
    EXPECT_EQ(node.where().text(), here(line - 2)) << "the gradient of y, which is read twice";
  }
  EXPECT_EQ(sums, 1);
  const std::string text = error_text<ShapeError>([&] { (void)minimize(Adam{}, y); });
  EXPECT_NE(text.find("\n  where:   " + here(__LINE__ - 1)), std::string::npos) << text;
}

TEST(Adam, SlotsAreVariablesThatAreNotTrained) {
  Graph graph;
  const Value w = weight(graph, "w", {2, 3});
  minimize(Adam{}, reduce_sum(w));
  EXPECT_EQ(names(graph.values(kVariables)), (Names{"w", "adam_steps", "w/adam_m", "w/adam_v"}));
  EXPECT_EQ(names(graph.values(kTrainableVariables)), (Names{"w"}));
  EXPECT_EQ(graph.find("w/adam_m").output().type(), w.type());
  EXPECT_EQ(graph.find("w/adam_v").output().type(), w.type());
  EXPECT_EQ(graph.find("adam_steps").output().type().text(), "i64[]");
  for (const char* slot : {"w/adam_m", "w/adam_v", "adam_steps"}) {
    const Node& initial = initializer_of(graph.find(slot).output()).node().inputs()[1].node();
    EXPECT_EQ(initial.options<FillOptions>().value, 0) << slot;
  }
}

TEST(Optimizers, SlotsAreNamedAfterTheirVariable) {
  const std::vector<std::pair<Optimizer, Names>> cases = {
      {Sgd{}, {"w"}},
      {Momentum{}, {"w", "w/momentum"}},
      {Adagrad{}, {"w", "w/adagrad_sum"}},
      {RmsProp{}, {"w", "w/rms_prop_average"}},
      {AdamW{}, {"w", "adam_w_steps", "w/adam_w_m", "w/adam_w_v"}},
      {Lion{}, {"w", "w/lion_m"}},
      {Lamb{}, {"w", "lamb_steps", "w/lamb_m", "w/lamb_v"}},
  };
  for (const auto& [optimizer, wanted] : cases) {
    Graph graph;
    const GroupId group = graph.new_group();
    Value w;
    {
      const auto entered = graph.enter_group(group);
      w = weight(graph, "w", {2, 3});
    }
    minimize(optimizer, reduce_sum(w));
    EXPECT_EQ(names(graph.values(kVariables)), wanted);
    EXPECT_EQ(names(graph.values(kTrainableVariables)), (Names{"w"}));
    for (const std::string& name : wanted) {
      if (!name.starts_with("w/")) continue;
      const Node& slot = graph.find(name);
      EXPECT_EQ(slot.output_types()[0], w.type()) << name;
      EXPECT_EQ(slot.group(), group) << name;
      EXPECT_EQ(slot.phase(), Phase::training) << name;
    }
  }
}

TEST(Adagrad, SumBeginsWithItsInitialValue) {
  Graph graph;
  minimize(Adagrad{.initial_sum = 0.1F}, reduce_sum(weight(graph, "w", {2})));
  const Node& initial = initializer_of(graph.find("w/adagrad_sum").output()).node().inputs()[1].node();
  EXPECT_EQ(initial.options<FillOptions>().value, 0.1F);
}

TEST(Optimizers, HandTheirNumbersToTheirUpdates) {
  Graph graph;
  const Value w = weight(graph, "w", {2});
  const Value loss = reduce_sum(w);
  const auto momentum = minimize(Momentum{.momentum = 0.5F, .nesterov = true}, loss);
  EXPECT_EQ(momentum[0].node().options<MomentumOptions>().momentum, 0.5F);
  EXPECT_TRUE(momentum[0].node().options<MomentumOptions>().nesterov);
  const auto adagrad = minimize(Adagrad{.epsilon = 0.25F}, loss);
  EXPECT_EQ(adagrad[0].node().options<AdagradOptions>().epsilon, 0.25F);
  const auto rms_prop = minimize(RmsProp{.decay = 0.5F, .epsilon = 0.25F}, loss);
  EXPECT_EQ(rms_prop[0].node().options<RmsPropOptions>().decay, 0.5F);
  EXPECT_EQ(rms_prop[0].node().options<RmsPropOptions>().epsilon, 0.25F);
  const auto adam_w = minimize(AdamW{.beta1 = 0.5F, .beta2 = 0.75F, .epsilon = 0.25F, .weight_decay = 0.125F}, loss);
  const auto& options = adam_w[0].node().options<AdamWOptions>();
  EXPECT_EQ(options.beta1, 0.5F);
  EXPECT_EQ(options.beta2, 0.75F);
  EXPECT_EQ(options.epsilon, 0.25F);
  EXPECT_EQ(options.weight_decay, 0.125F);
  const auto lion = minimize(Lion{.beta1 = 0.5F, .beta2 = 0.75F, .weight_decay = 0.125F}, loss);
  EXPECT_EQ(lion[0].node().options<LionOptions>().beta2, 0.75F);
  EXPECT_EQ(lion[0].node().options<LionOptions>().weight_decay, 0.125F);
  const auto lamb = minimize(Lamb{.beta1 = 0.5F, .beta2 = 0.75F, .epsilon = 0.25F, .weight_decay = 0.125F}, loss);
  EXPECT_EQ(lamb[0].node().options<LambOptions>().epsilon, 0.25F);
  EXPECT_EQ(lamb[0].node().options<LambOptions>().weight_decay, 0.125F);
  const auto adafactor = minimize(Adafactor{.decay_exponent = 0.5F,
                                            .epsilon = 0.25F,
                                            .least_scale = 0.75F,
                                            .clip = 2,
                                            .weight_decay = 0.125F,
                                            .relative_step = false},
                                  loss);
  const auto& of_adafactor = adafactor[0].node().options<AdafactorOptions>();
  EXPECT_EQ(of_adafactor.decay_exponent, 0.5F);
  EXPECT_EQ(of_adafactor.epsilon, 0.25F);
  EXPECT_EQ(of_adafactor.least_scale, 0.75F);
  EXPECT_EQ(of_adafactor.clip, 2);
  EXPECT_EQ(of_adafactor.weight_decay, 0.125F);
  EXPECT_FALSE(of_adafactor.relative_step);
}

TEST(ApplyGradients, NumbersOutsideTheirRangesAreRefusedAndAddNothing) {
  Graph graph;
  const Value w = weight(graph, "w", {2}), x = placeholder(graph, "x", {2});
  const int before = graph.num_nodes();
  const std::vector<std::pair<Optimizer, std::string>> cases = {
      {Adam{.beta1 = 1}, "Adam: beta1 is 1"},
      {Adam{.beta2 = -1}, "Adam: beta2 is -1"},
      {Momentum{.momentum = -1}, "Momentum: momentum is -1"},
      {Momentum{.momentum = 0, .nesterov = true}, "Momentum: nesterov without momentum"},
      {Adagrad{.epsilon = -1}, "Adagrad: epsilon is -1"},
      {Adagrad{.initial_sum = -1}, "Adagrad: initial_sum is -1"},
      {RmsProp{.decay = 2}, "RmsProp: decay is 2"},
      {AdamW{.weight_decay = -1}, "AdamW: weight_decay is -1"},
      {AdamW{.slots = static_cast<SlotStorage>(7)}, "AdamW: slots is 7, which is none of its values"},
      {Adam{.beta2 = -1, .slots = SlotStorage::eight_bit}, "Adam: beta2 is -1"},
      {Lion{.beta1 = 1}, "Lion: beta1 is 1"},
      {Lion{.weight_decay = -1}, "Lion: weight_decay is -1"},
      {Lamb{.epsilon = -1}, "Lamb: epsilon is -1"},
      {Adafactor{.decay_exponent = -1}, "Adafactor: decay_exponent is -1"},
      {Adafactor{.clip = 0}, "Adafactor: clip is 0"},
  };
  for (const auto& [optimizer, part] : cases) {
    const std::string text = error_text<ArgumentError>([&, &chosen = optimizer] { apply_gradients(chosen, {{x, w}}); });
    EXPECT_TRUE(contains(text, "apply_gradients: " + part)) << text;
  }
  EXPECT_EQ(graph.num_nodes(), before);
}

TEST(Adam, DoesNotShiftTheRandomNumbersOfTheModel) {
  Graph graph;
  const Value w = variable("w", random_normal(graph, {2}));
  minimize(Adam{}, reduce_sum(w));
  EXPECT_EQ(random_normal(graph, {2}).node().random_ordinal(), 1U);
}

TEST(Optimizers, LearningRatesAreTheSameFloatHoweverTheyAreWritten) {
  const double variable = 3e-4;
  EXPECT_EQ(*ScalarOrValue(variable).number(), 3e-4F);
  EXPECT_EQ(*Adam{.learning_rate = 1e-3}.learning_rate.number(), 1e-3F);
  EXPECT_EQ(*Adam{}.learning_rate.number(), 1e-3F);
  EXPECT_EQ(*Sgd{.learning_rate = 1}.learning_rate.number(), 1.0F);
  // Every rate of up to two digits, as people write them.
  for (int digits = 1; digits < 100; ++digits) {
    for (int exponent = -9; exponent <= 1; ++exponent) {
      const std::string text = std::to_string(digits) + "e" + std::to_string(exponent);
      EXPECT_EQ(*ScalarOrValue(std::strtod(text.c_str(), nullptr)).number(), std::strtof(text.c_str(), nullptr))
          << text;
    }
  }
}

TEST(Sgd, LearningRateMayBeFed) {
  Graph graph;
  const Value w = weight(graph, "w", {2});
  const Value rate = placeholder(graph, "rate", {});
  const auto operations = minimize(Sgd{.learning_rate = rate}, reduce_sum(w * 3.0F));
  for (float fed : {0.5F, 0.25F}) {
    Feeds feeds;
    feeds.emplace(w, HostTensor::of<float>({2}, {1, 2}));
    feeds.emplace(rate, HostTensor::scalar(fed));
    const RunResult result = run_kernels({}, operations, feeds);
    EXPECT_TRUE(is_near(result.variables.at(w), std::vector<double>{1 - 3 * fed, 2 - 3 * fed}, {}));
  }
}

TEST(ApplyGradients, GradientsMayBeTreatedBefore) {
  Graph graph;
  const Value w = weight(graph, "w", {2});
  auto pairs = compute_gradients(reduce_sum(w * w));
  // Clipped below at 0 and halved.
  pairs[0].gradient = relu(pairs[0].gradient) * 0.5F;
  const auto operations = apply_gradients(Sgd{.learning_rate = 0.1F}, pairs);
  Feeds feeds;
  feeds.emplace(w, HostTensor::of<float>({2}, {3, -4}));
  const RunResult result = run_kernels({}, operations, feeds);
  EXPECT_TRUE(is_near(result.variables.at(w), std::vector<double>{3 - 0.1 * 3, -4}, {}));
}

TEST(Adam, StepsAreThoseOfThePaper) {
  Graph graph;
  const Value w = weight(graph, "w", {2});
  const auto operations = minimize(Adam{.learning_rate = 0.1F}, reduce_sum(w * w));
  const Value m = graph.find("w/adam_m").output(), v = graph.find("w/adam_v").output();
  const Value steps = graph.find("adam_steps").output();
  Feeds state;
  state.emplace(w, HostTensor::of<float>({2}, {1, -2}));
  state.emplace(m, HostTensor(m.type()));
  state.emplace(v, HostTensor(v.type()));
  state.emplace(steps, HostTensor(steps.type()));
  std::vector<double> wanted = {1, -2}, first = {0, 0}, second = {0, 0};
  for (int t = 1; t <= 5; ++t) {
    RunResult result = run_kernels({}, operations, state);
    for (auto& [variable, content] : result.variables) state.insert_or_assign(variable, std::move(content));
    for (std::size_t i = 0; i < 2; ++i) {
      const double g = 2 * wanted[i];
      first[i] = 0.9F * first[i] + (1 - 0.9F) * g;
      second[i] = 0.999F * second[i] + (1 - 0.999F) * g * g;
      const double rate = 0.1F * std::sqrt(1 - std::pow(0.999F, t)) / (1 - std::pow(0.9F, t));
      wanted[i] -= rate * first[i] / (std::sqrt(second[i]) + 1e-8F);
    }
    EXPECT_EQ(state.at(steps).item<std::int64_t>(), t);
    EXPECT_TRUE(is_near(state.at(w), wanted, {.relative = 64, .absolute = 64})) << "step " << t;
    EXPECT_TRUE(is_near(state.at(m), first, {.relative = 64, .absolute = 64})) << "step " << t;
    EXPECT_TRUE(is_near(state.at(v), second, {.relative = 256, .absolute = 64})) << "step " << t;
  }
}

TEST(Sgd, SharedVariableIsUpdatedOnceByTheSumOfItsGradients) {
  Graph graph;
  const Value w = weight(graph, "w", {2, 2});
  const Value x = placeholder(graph, "x", {2, 2});
  const auto operations = minimize(Sgd{.learning_rate = 1.0F}, reduce_sum(matmul(x, w) + w));
  EXPECT_EQ(operations.size(), 1U);
  Feeds feeds;
  feeds.emplace(w, HostTensor(w.type()));
  feeds.emplace(x, HostTensor::of<float>({2, 2}, {1, 2, 3, 4}));
  const RunResult result = run_kernels({}, operations, feeds);
  // d/dw = x^T 1 + 1 = column sums of x + 1.
  EXPECT_TRUE(is_near(result.variables.at(w), std::vector<double>{-5, -5, -7, -7}, {}));
}

}  // namespace
}  // namespace sectionflow
