#include "autodiff/updates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "graph/graph_file.h"
#include "graph/layers.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/reduce.h"
#include "graph/ops/scaled_update.h"
#include "runtime/session.h"
#include "tests/autodiff/weight.h"
#include "tests/support/tolerance.h"

namespace sectionflow {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;
using testing_support::is_near;
using testing_support::weight;

/// An encoder of two layers, an embedding and a head: the loss is the sum of all, each times its number.
struct Named {
  Named() {
    for (const char* name : {"encoder/a", "encoder/b", "embed", "head/kernel", "head/bias"}) {
      all.push_back(weight(graph, name, {2}));
    }
    loss = reduce_sum(all[0]);
    for (std::size_t i = 1; i < all.size(); ++i) loss = loss + reduce_sum(all[i]) * static_cast<float>(i + 1);
  }
  /// What each variable's first element is after a step.
  std::vector<float> after(const Updates& updates, int steps = 1) {
    Session session(graph, {.threads = 1, .check_schedules = true});
    session.initialize();
    for (int i = 0; i < steps; ++i) session.run({}, {.targets = updates.operations});
    std::vector<float> result;
    for (const Value& variable : all) result.push_back(session.read(variable).values<float>()[0]);
    return result;
  }
  std::string refusal(const std::vector<ParameterGroup>& groups, const std::vector<Value>& variables = {}) {
    const std::string before = graph_text(graph);
    try {
      (void)training_updates(groups, loss, {}, variables);
    } catch (const ArgumentError& error) {
      EXPECT_EQ(graph_text(graph), before);
      return error.what();
    }
    return "nothing was thrown";
  }

  Graph graph;
  std::vector<Value> all;
  Value loss;
};

// ---- Parameter groups.

// torch.optim.AdamW of PyTorch 2.15 in double, with two groups: weight_decay 0.25 and 0.
TEST(ParameterGroups, OfAdamWDecayAsThoseOfPyTorch) {
  Graph graph;
  const auto swaying = [](std::int64_t count, float phase) {
    HostTensor tensor(Dtype::f32, {count});
    for (int i = 0; float& element : tensor.values<float>()) element = std::sin(phase + 1.7F * static_cast<float>(i++));
    return tensor;
  };
  const Value kernel = variable("dense/kernel", constant(graph, swaying(6, 1)));
  const Value bias = variable("dense/bias", constant(graph, swaying(3, 2)));
  const Value of_kernel = placeholder(graph, "of_kernel", {6}), of_bias = placeholder(graph, "of_bias", {3});
  const Updates updates =
      training_updates({{.variables = "*/bias", .optimizer = AdamW{.learning_rate = 0.0625F, .weight_decay = 0}},
                        {.optimizer = AdamW{.learning_rate = 0.0625F, .weight_decay = 0.25F}}},
                       {{of_kernel, kernel}, {of_bias, bias}});
  Session session(graph, {.threads = 1});
  session.initialize();
  for (int t = 1; t <= 3; ++t) {
    const HostTensor g = swaying(6, 2.3F * static_cast<float>(t)), h = swaying(3, 1.1F * static_cast<float>(t));
    session.run({{of_kernel, g}, {of_bias, h}}, {.targets = updates.operations});
  }
  const std::vector<double> wanted = {0.745567131, 0.503245963, -0.85765248, -0.258552899, 0.911519457, 0.00556161383};
  const std::vector<double> wanted_bias = {0.741999084, -0.526314673, -0.618875561};
  EXPECT_TRUE(is_near(session.read(kernel), wanted, {.relative = 16, .absolute = 16}));
  EXPECT_TRUE(is_near(session.read(bias), wanted_bias, {.relative = 16, .absolute = 16}));
}

TEST(ParameterGroups, DecayInThePlaceOfAnOptimisersOwn) {
  const auto options_of = []<class Options>(const Optimizer& optimizer, std::optional<float> decay, Options*) {
    Named net;
    const Updates updates = training_updates({{.optimizer = optimizer, .weight_decay = decay}}, net.loss);
    return updates.operations[0].node().options<Options>().weight_decay;
  };
  constexpr LionOptions* lion = nullptr;
  constexpr LambOptions* lamb = nullptr;
  constexpr AdafactorOptions* adafactor = nullptr;
  constexpr AdamWOptions* adam_w = nullptr;
  EXPECT_EQ(options_of(Lion{}, 0.5F, lion), 0.5F);
  EXPECT_EQ(options_of(Lamb{}, 0.5F, lamb), 0.5F);
  EXPECT_EQ(options_of(Lamb{}, 0.0F, lamb), 0);
  EXPECT_EQ(options_of(Adafactor{.weight_decay = 0.25F}, std::nullopt, adafactor), 0.25F);
  EXPECT_EQ(options_of(AdamW{.slots = SlotStorage::eight_bit}, 0.5F, adam_w), 0.5F);
}

TEST(ParameterGroups, EachHasItsOwnOptimiserAndFrozenOnesStay) {
  Named net;
  const Updates updates = training_updates(
      {{.variables = "encoder/*", .optimizer = Sgd{.learning_rate = 0.5}},
       {.variables = {"head/?ias", "head/k*l"}, .optimizer = Momentum{.learning_rate = 1, .momentum = 0}},
       {.variables = "embed", .frozen = true}},
      net.loss);
  EXPECT_THAT(net.after(updates), ElementsAre(1 - 0.5F, 1 - 1.0F, 1, 1 - 4.0F, 1 - 5.0F));
  EXPECT_EQ(updates.gradients.size(), 4U);
  for (const char* slot : {"embed/momentum", "encoder/a/momentum"}) EXPECT_THROW(net.graph.find(slot), ArgumentError);
  EXPECT_NO_THROW(net.graph.find("head/bias/momentum"));
}

TEST(ParameterGroups, OneWithoutPatternsTakesAllOthers) {
  Named net;
  const Updates updates =
      training_updates({{.variables = "*/?", .frozen = true}, {.optimizer = Sgd{.learning_rate = 1}}}, net.loss);
  EXPECT_THAT(net.after(updates), ElementsAre(1, 1, 1 - 3.0F, 1 - 4.0F, 1 - 5.0F));
}

TEST(ParameterGroups, TrainTheSameBitsAsOneOfAll) {
  Named apart, together;
  const Adam adam{.learning_rate = 0.1};
  EXPECT_EQ(apart.after(
                training_updates({{.variables = "encoder/*", .optimizer = adam}, {.optimizer = adam}}, apart.loss), 3),
            together.after(training_updates(adam, together.loss), 3));
}

TEST(ParameterGroups, OfGivenGradientsLeaveFrozenOnesOut) {
  Named net;
  const Updates updates = training_updates(
      {{.variables = "head/*", .frozen = true}, {.optimizer = Sgd{.learning_rate = 1}}}, compute_gradients(net.loss));
  EXPECT_EQ(updates.gradients.size(), 3U);
  EXPECT_THAT(net.after(updates), ElementsAre(0, -1, -2, 1, 1));
}

TEST(ParameterGroups, ThatDoNotCoverEachVariableOnceAreRefused) {
  Named net;
  const Optimizer sgd = Sgd{};
  EXPECT_THAT(net.refusal({}), AllOf(HasSubstr("SF-E032"), HasSubstr("no parameter group")));
  EXPECT_THAT(net.refusal({{.variables = "encoder/*", .optimizer = sgd}}),
              AllOf(HasSubstr("SF-E032"), HasSubstr("variable 'embed' is in no parameter group")));
  EXPECT_THAT(net.refusal({{.variables = "e*", .optimizer = sgd}, {.variables = {"head/*", "embed"}, .frozen = true}}),
              AllOf(HasSubstr("variable 'embed' is in parameter group 0 ('e*')"), HasSubstr("1 ('head/*', 'embed')")));
  EXPECT_THAT(net.refusal({{.optimizer = sgd}, {.optimizer = sgd}}), HasSubstr("parameter groups 0 and 1 both take"));
  EXPECT_THAT(net.refusal({{.variables = "head/kernal", .optimizer = sgd}, {.optimizer = sgd}}),
              AllOf(HasSubstr("names none of 5"), HasSubstr("did you mean 'head/kernel'?")));
  EXPECT_THAT(net.refusal({{.variables = "", .optimizer = sgd}, {.optimizer = sgd}}), HasSubstr("names none"));
  EXPECT_THAT(net.refusal({{.variables = "zzzzzzzzzzzz*", .optimizer = sgd}, {.optimizer = sgd}}),
              HasSubstr("names are like 'encoder/a'"));
  EXPECT_THAT(net.refusal({{.frozen = true}}), HasSubstr("all of 5 variables are frozen"));
  // Of named variables alone.
  EXPECT_THAT(net.refusal({{.variables = "head/*", .optimizer = sgd}}, {net.all[0]}), HasSubstr("names none of 1"));
}

TEST(ParameterGroups, ThatContradictThemselvesAreRefused) {
  Named net;
  EXPECT_THAT(net.refusal({{.variables = "*"}}), HasSubstr("has no optimiser"));
  EXPECT_THAT(net.refusal({{.optimizer = Sgd{}, .frozen = true}}), HasSubstr("is frozen and has an optimiser"));
  EXPECT_THAT(net.refusal({{.weight_decay = 0.1F, .frozen = true}}), HasSubstr("is frozen and has weight decay"));
  for (const float decay : {-0.1F, std::nanf(""), HUGE_VALF}) {
    EXPECT_THAT(net.refusal({{.optimizer = Sgd{}, .weight_decay = decay}}), HasSubstr("wanted 0 or more"));
  }
  EXPECT_THAT(net.refusal({{.optimizer = Sgd{.learning_rate = -1}}}), HasSubstr("learning_rate is -1"));
}

TEST(ParameterGroups, PatternsOfManyStarsTakeNoLongTime) {
  Graph graph;
  const Value w = weight(graph, std::string(2000, 'a'), {2});
  std::string pattern;
  for (int i = 0; i < 500; ++i) pattern += "a*";
  EXPECT_THROW(training_updates({{.variables = pattern + "b", .optimizer = Sgd{}}}, reduce_sum(w)), ArgumentError);
  EXPECT_NO_THROW(training_updates({{.variables = pattern, .optimizer = Sgd{}}}, reduce_sum(w)));
}

// ---- Weight decay, as torch has it.

TEST(WeightDecay, IsL2OutsideOfAdamW) {
  Named net;
  const Updates updates = training_updates({{.optimizer = Sgd{.learning_rate = 0.5}, .weight_decay = 0.1F}}, net.loss);
  // w - rate (g + decay w), with w = 1.
  std::vector<float> wanted;
  for (int i = 0; i < 5; ++i) wanted.push_back(1 - 0.5F * (static_cast<float>(i + 1) + 1 * 0.1F));
  EXPECT_EQ(net.after(updates), wanted);
}

TEST(WeightDecay, OfAdamWTakesThePlaceOfItsOwn) {
  Named grouped, plain;
  EXPECT_EQ(grouped.after(
                training_updates({{.optimizer = AdamW{.weight_decay = 0.5F}, .weight_decay = 0.1F}}, grouped.loss), 3),
            plain.after(training_updates(AdamW{.weight_decay = 0.1F}, plain.loss), 3));
}

TEST(WeightDecay, FollowsClipping) {
  Graph graph;
  const Value w = weight(graph, "w", {1});
  // A gradient of 4 clipped to 1, then 0.5 of w.
  const Updates updates = training_updates({{.optimizer = Sgd{.learning_rate = 1}, .weight_decay = 0.5F}},
                                           reduce_sum(w * 4.0F), {.clip_norm = 1.0F});
  Session session(graph, {.threads = 1});
  session.initialize();
  const auto norm = session.run({updates.norm}, {}, {.targets = updates.operations});
  EXPECT_EQ(norm[0].item<float>(), 4);
  EXPECT_EQ(session.read(w).values<float>()[0], 1 - (1 + 0.5F));
}

// ---- Averages of weights.

/// w loses 1 a step, from 8 on: after step t it is 7 - t.
struct Falling {
  explicit Falling(const WeightAverageOptions& average, int micro_batches = 1) {
    w = variable("w", fill(graph, {3}, 8));
    updates =
        training_updates(Sgd{.learning_rate = 1}, reduce_sum(w), {.micro_batches = micro_batches, .average = average});
    session = std::make_unique<Session>(graph, SessionOptions{.threads = 1, .check_schedules = true});
    session->initialize();
  }
  float step() {
    session->run({}, {.targets = updates.operations});
    return average();
  }
  float average() { return session->read(updates.averages.at(0).average).values<float>()[2]; }

  Graph graph;
  Value w;
  Updates updates;
  std::unique_ptr<Session> session;
};

TEST(WeightAverages, BeginWithTheWeightsAndTakeWhatUpdatesHaveMadeOfThem) {
  Falling falling({.decay = 0.5F});
  EXPECT_EQ(falling.updates.averages[0].average.name(), "w/average");
  EXPECT_EQ(falling.average(), 8);
  EXPECT_EQ(falling.step(), 7);                    // the first is taken as it is
  EXPECT_EQ(falling.step(), 0.5F * 7 + 0.5F * 6);  // torch: decay average + (1 - decay) variable
  EXPECT_EQ(falling.step(), 0.5F * 6.5F + 0.5F * 5);
}

TEST(WeightAverages, UniformOnesAreTheMeanOfAllThatWasTaken) {
  Falling falling({.kind = Averaging::uniform});
  float sum = 0;
  for (int t = 0; t < 5; ++t) {
    sum += static_cast<float>(7 - t);
    EXPECT_FLOAT_EQ(falling.step(), sum / static_cast<float>(t + 1)) << t;
  }
}

TEST(WeightAverages, FollowTheWeightsUntilTheirStartAndTakeEverySoManyth) {
  Falling falling({.kind = Averaging::uniform, .start = 2, .every = 2});
  EXPECT_EQ(falling.step(), 7);
  EXPECT_EQ(falling.step(), 6);
  EXPECT_EQ(falling.step(), 5);  // the first
  EXPECT_EQ(falling.step(), 5);  // not taken
  EXPECT_EQ(falling.step(), (5 + 3) / 2.0F);
  EXPECT_EQ(falling.step(), (5 + 3) / 2.0F);
}

TEST(WeightAverages, CountUpdatesAndNotMicroBatches) {
  Falling falling({.decay = 0.5F}, 2);
  EXPECT_EQ(falling.step(), 8);
  EXPECT_EQ(falling.step(), 7);
  EXPECT_EQ(falling.step(), 7);
  EXPECT_EQ(falling.step(), 6.5F);
}

TEST(WeightAverages, NumbersOutOfRangeAreRefusedAndAddNothing) {
  Graph graph;
  const Value loss = reduce_sum(weight(graph, "w", {2}));
  const std::string before = graph_text(graph);
  for (const WeightAverageOptions& wrong : {WeightAverageOptions{.decay = 1}, WeightAverageOptions{.decay = -0.1F},
                                            WeightAverageOptions{.decay = std::nanf("")},
                                            WeightAverageOptions{.start = -1}, WeightAverageOptions{.every = 0}}) {
    EXPECT_THAT([&] { (void)training_updates(Sgd{}, loss, {.average = wrong}); },
                ThrowsMessage<ArgumentError>(HasSubstr("SF-E034")));
  }
  EXPECT_EQ(graph_text(graph), before);
}

// ---- Several losses.

TEST(WeightedSum, AddsFromLeftToRightAndLeavesAWeightOfOneOut) {
  Graph graph;
  const Value a = placeholder(graph, "a", {}), b = placeholder(graph, "b", {}), rate = placeholder(graph, "rate", {});
  EXPECT_EQ(weighted_sum({{a}}), a);
  const Value sum = weighted_sum({{a}, {b, 0.25F}, {a, rate}});
  Session session(graph, {.threads = 1});
  EXPECT_NO_THROW(session.initialize());
  EXPECT_EQ(session.run({sum}, {{a, 3.0F}, {b, 8.0F}, {rate, 0.5F}})[0].item<float>(), 3 + 8 * 0.25F + 3 * 0.5F);
}

TEST(WeightedSum, OfWhatIsNoLossIsRefused) {
  Graph graph;
  const Value a = placeholder(graph, "a", {}), row = placeholder(graph, "row", {3});
  EXPECT_THROW(weighted_sum({}), ArgumentError);
  EXPECT_THAT([&] { (void)weighted_sum({{a}, {row}}); }, ThrowsMessage<ShapeError>(HasSubstr("take mean() of it")));
  EXPECT_THAT([&] { (void)weighted_sum({{a, row}}); }, ThrowsMessage<ShapeError>(HasSubstr("the weight of loss 'a'")));
}

}  // namespace
}  // namespace sectionflow
