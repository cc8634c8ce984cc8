// An update in which a gradient is not finite changes nothing, by every strategy, and training goes on behind it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "graph/ops/update.h"
#include "tests/sections/small_net.h"
#include "tests/support/training_case.h"

namespace sectionflow::testing {
namespace {

/// Three sections without statistics: what a batch leaves behind is what its update changes.
struct SteadyNet : SmallInputs {
  SteadyNet(Graph& graph, GraphSectionManager& manager) : SmallInputs(graph) {
    Value x = images;
    for (int k = 0; k < 2; ++k) {
      auto section = manager.new_section();
      x = relu(conv2d(x, {.features = 4}));
    }
    auto section = manager.new_section();
    loss = mean(softmax_cross_entropy(dense(reduce_mean(x, {.axes = {1, 2}}), {.features = 5}), labels));
  }
  /// Random batches; in steps that `is_broken` names with an element that is NaN, infinite, or so large that only the
  /// norm of the gradients is out of range.
  std::function<Feeds(std::int64_t, FeedStore&)> feeds(std::function<float(std::int64_t)> broken) const {
    const auto random = random_feeds();
    return [=](std::int64_t step, FeedStore& store) {
      Feeds feeds = random(step, store);
      const float element = broken(step);
      if (element != 0) store[0].values<float>()[17] = element;
      return feeds;
    };
  }
  Value loss;
};

float every_third(std::int64_t step) {
  if (step % 3 != 1) return 0;
  return step % 2 == 0 ? std::numeric_limits<float>::infinity() : std::nanf("");
}

using Variables = std::map<std::string, HostTensor>;

struct Watched {
  explicit Watched(TrainingOptions options, const Optimizer& optimizer = Adam{.learning_rate = 1e-2F})
      : net(graph, manager) {
    options.skip_non_finite = true;
    manager.add_training_ops(optimizer, net.loss, options);
    manager.prepare_training();
    session = std::make_unique<Session>(graph, SessionOptions{.threads = 2, .seed = 7, .check_schedules = true});
    session->initialize();
  }
  /// A cycle on the batch of `step`.
  void cycle(std::int64_t step, float element = 0) {
    FeedStore store;
    (void)manager.run_full_cycle(*session, {net.loss}, net.feeds([=](std::int64_t) { return element; })(step, store));
  }
  std::int64_t skipped() { return session->read(manager.updates().skipped_updates).item<std::int64_t>(); }
  Variables variables() { return read_variables(*session); }

  Graph graph;
  GraphSectionManager manager{graph};
  SteadyNet net;
  std::unique_ptr<Session> session;
};

void expect_alike(const Variables& a, const Variables& b, const std::vector<std::string>& but = {}) {
  for (const auto& [name, tensor] : a) {
    if (std::find(but.begin(), but.end(), name) != but.end()) continue;
    EXPECT_TRUE(bitwise_equal(tensor, b.at(name))) << name;
  }
}

TEST(SkippedUpdates, EveryStrategyGivesTheSameBits) {
  for (const int micro_batches : {1, 2}) {
    expect_exact({text_of("skipped, ", micro_batches),
                  [=](Graph& graph, GraphSectionManager& manager) {
                    const SteadyNet net(graph, manager);
                    manager.add_training_ops(AdamW{}, net.loss,
                                             {.micro_batches = micro_batches,
                                              .skip_non_finite = true,
                                              .average = WeightAverageOptions{.decay = 0.9F}});
                    manager.prepare_training();
                    return TrainingNet{
                        .loss = net.loss, .feeds = net.feeds(every_third), .micro_batches = micro_batches};
                  }},
                 {.steps = 8});
  }
}

TEST(SkippedUpdates, OfFiniteGradientsAreNoneAndTheBitsThoseOfUpdatesThatAreNotWatched) {
  Watched watched({});
  Graph graph;
  GraphSectionManager manager(graph);
  const SteadyNet net(graph, manager);
  manager.add_training_ops(Adam{.learning_rate = 1e-2F}, net.loss);
  manager.prepare_training();
  Session session(graph, {.threads = 2, .seed = 7});
  session.initialize();
  for (std::int64_t step = 0; step < 4; ++step) {
    watched.cycle(step);
    FeedStore store;
    (void)manager.run_full_cycle(session, {net.loss}, net.random_feeds()(step, store));
  }
  EXPECT_EQ(watched.skipped(), 0);
  expect_alike(read_variables(session), watched.variables());
}

TEST(SkippedUpdates, ComputeNothingThatValueChecksRefuseWhereGradientsAreFinite) {
  Watched watched({.clip_norm = 1.0F});
  watched.session->set_value_checks({.nan = true, .infinity = true});
  for (std::int64_t step = 0; step < 2; ++step) watched.cycle(step);
  EXPECT_EQ(watched.skipped(), 0);
  EXPECT_EQ(watched.session->completed_cycles(), 2U);
}

TEST(SkippedUpdates, ChangeNoVariableSlotCounterOrAverageAndAreCounted) {
  const std::vector<Optimizer> optimizers = {Sgd{},
                                             Adam{},
                                             Momentum{},
                                             Momentum{.nesterov = true},
                                             Adagrad{},
                                             RmsProp{},
                                             AdamW{},
                                             Lion{},
                                             Lamb{},
                                             Adafactor{},
                                             Adam{.slots = SlotStorage::eight_bit},
                                             AdamW{.slots = SlotStorage::eight_bit}};
  for (const Optimizer& optimizer : optimizers) {
    Watched training({.clip_norm = 1.0F, .average = WeightAverageOptions{}}, optimizer);
    training.cycle(0);
    const Variables before = training.variables();
    std::int64_t count = 0;
    for (const float element : {std::nanf(""), HUGE_VALF, -HUGE_VALF}) {
      training.cycle(1, element);
      EXPECT_EQ(training.skipped(), ++count);
      expect_alike(before, training.variables(), {"skipped_updates"});
    }
    // Cycles are counted all the same: the next draws other numbers.
    EXPECT_EQ(training.session->completed_cycles(), 4U);
  }
}

TEST(SkippedUpdates, LeaveTrainingAsIfTheirBatchesHadNotBeen) {
  Watched straight({}), interrupted({});
  for (std::int64_t step = 0; step < 5; ++step) {
    straight.cycle(step);
    interrupted.cycle(step);
    if (step % 2 == 0) interrupted.cycle(100 + step, std::nanf(""));
  }
  EXPECT_EQ(interrupted.skipped(), 3);
  expect_alike(straight.variables(), interrupted.variables(), {"skipped_updates"});
}

TEST(SkippedUpdates, AMicroBatchSkipsAllOfItsUpdateAndNothingOfTheNext) {
  Watched straight({.micro_batches = 3}), interrupted({.micro_batches = 3});
  for (int broken = 0; broken < 3; ++broken) {
    const Variables before = interrupted.variables();
    for (int k = 0; k < 3; ++k) interrupted.cycle(100 + k, k == broken ? HUGE_VALF : 0);
    EXPECT_EQ(interrupted.skipped(), broken + 1);
    for (const auto& [name, tensor] : interrupted.variables()) {
      const bool is_kept = !name.ends_with("/gradient_sum") && name != "skipped_updates";
      EXPECT_TRUE(!is_kept || bitwise_equal(tensor, before.at(name))) << name;
    }
    for (int k = 0; k < 3; ++k) {
      straight.cycle(3 * broken + k);
      interrupted.cycle(3 * broken + k);
    }
    expect_alike(straight.variables(), interrupted.variables(), {"skipped_updates"});
  }
}

TEST(SkippedUpdates, AreWholeWhereOneGradientOfManyIsNotFinite) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2});
  const Value a = variable("a", fill(graph, {2}, 1)), b = variable("b", fill(graph, {2}, 1));
  const Value loss = reduce_sum(a) + reduce_sum(b * x);
  const Updates updates = training_updates(Sgd{.learning_rate = 1}, loss, {.skip_non_finite = true});
  Session session(graph, {.threads = 1, .check_schedules = true});
  session.initialize();
  const auto step = [&](float element) {
    return session
        .run({updates.norm}, {{x, HostTensor::of<float>({2}, {element, element})}}, {.targets = updates.operations})[0]
        .item<float>();
  };
  EXPECT_FALSE(std::isfinite(step(HUGE_VALF)));
  // Each is finite, and their norm is not.
  EXPECT_FALSE(std::isfinite(step(std::numeric_limits<float>::max())));
  EXPECT_EQ(session.read(a).values<float>()[0], 1);
  EXPECT_EQ(session.read(b).values<float>()[0], 1);
  EXPECT_FLOAT_EQ(step(1), 2);
  EXPECT_EQ(session.read(a).values<float>()[0], 0);
  EXPECT_EQ(session.read(b).values<float>()[0], 0);
}

TEST(SkippedUpdates, HoldEveryGradientAsClippingDoes) {
  const auto peak = [](const TrainingOptions& options) {
    Graph graph;
    GraphSectionManager manager(graph);
    const SteadyNet net(graph, manager);
    manager.add_training_ops(Sgd{}, net.loss, options);
    manager.prepare_training();
    Session session(graph, {.threads = 1});
    return manager
        .plan(session, {net.loss}, {{net.images, Shape{4, 8, 8, 3}}, {net.labels, Shape{4}}, {net.is_training, true}})
        .transient_bytes;
  };
  EXPECT_LE(peak({.skip_non_finite = true}), peak({.clip_norm = 1.0F}) + 4096);
}

}  // namespace
}  // namespace sectionflow::testing
