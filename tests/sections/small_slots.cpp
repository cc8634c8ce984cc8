// Optimisers whose slots are smaller than their variables: what they take, that plans and micro-batches change no bit,
// and that they train.

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "fit/fit_budget.h"
#include "tests/sections/accumulated_net.h"
#include "tests/sections/small_net.h"
#include "tests/support/training_case.h"

namespace sectionflow::testing {
namespace {

struct NamedOptimizer {
  std::string name;
  Optimizer optimizer;
  friend void PrintTo(const NamedOptimizer& each, std::ostream* stream) { *stream << each.name; }
};

const std::vector<NamedOptimizer>& small_optimizers() {
  static const std::vector<NamedOptimizer> all = {
      {"adafactor", Adafactor{.learning_rate = 0.05F, .weight_decay = 0.01F}},
      {"adam_8bit", Adam{.learning_rate = 1e-2F, .slots = SlotStorage::eight_bit}},
      {"adam_w_8bit", AdamW{.learning_rate = 1e-2F, .slots = SlotStorage::eight_bit}},
      {"lamb", Lamb{.learning_rate = 1e-2F}},
      {"lion", Lion{.learning_rate = 1e-3F}}};
  return all;
}

/// Two dense layers of points in a plane, which of two spirals they are on.
struct Spirals {
  static constexpr std::int64_t kWidth = 64, kBatch = 64;

  explicit Spirals(const Optimizer& optimizer, const SessionOptions& options = {.threads = 2, .seed = 5},
                   bool is_fitted = false) {
    points = placeholder(graph, "points", {kDynamic, 2});
    labels = placeholder(graph, "labels", {kDynamic}, Dtype::i32);
    Value x = points;
    for (int k = 0; k < 2; ++k) {
      auto section = manager.new_section();
      x = relu(dense(x, {.features = kWidth}));
    }
    {
      auto section = manager.new_section();
      loss = mean(softmax_cross_entropy(dense(x, {.features = 2}), labels));
    }
    manager.add_training_ops(optimizer, loss);
    manager.prepare_training();
    session = std::make_unique<Session>(graph, options);
    if (is_fitted) fit_budget(*session, {.effort = 300'000});
    session->initialize();
  }

  Feeds feeds(std::int64_t step) {
    at = HostTensor(Dtype::f32, {kBatch, 2});
    of = HostTensor(Dtype::i32, {kBatch});
    const HostTensor places = random_images({kBatch}, 11, step);
    for (std::size_t i = 0; i < static_cast<std::size_t>(kBatch); ++i) {
      const auto arm = static_cast<std::int32_t>(i % 2);
      const float turn = 3 + 3 * places.values<float>()[i], angle = turn + 3.14159265F * static_cast<float>(arm);
      at.values<float>()[2 * i] = turn / 6 * std::cos(angle);
      at.values<float>()[2 * i + 1] = turn / 6 * std::sin(angle);
      of.values<std::int32_t>()[i] = arm;
    }
    return {{points, at}, {labels, of}};
  }
  float step(std::int64_t number) {
    return session->run(loss, feeds(number), {.targets = manager.training_operations()}).item<float>();
  }
  std::size_t persistent_bytes() {
    return session
        ->plan({loss}, {{points, {kBatch, 2}}, {labels, Shape{kBatch}}}, {.targets = manager.training_operations()})
        .persistent_bytes;
  }
  std::size_t bytes_of_variables() const {
    std::size_t bytes = 0;
    for (const Value& variable : graph.values(kVariables)) bytes += variable.type().bytes();
    return bytes;
  }

  Graph graph;
  GraphSectionManager manager{graph};
  Value points, labels, loss;
  HostTensor at{Dtype::f32, {0}}, of{Dtype::i32, {0}};
  std::unique_ptr<Session> session;
};

// Kernels [2, 64], [64, 64], [64, 2] and biases of 64, 64 and 2.
constexpr std::size_t kElements = 2 * 64 + 64 * 64 + 64 * 2 + 64 + 64 + 2, kCounter = 8;

TEST(SmallSlots, TakeTheBytesThatTheirShapesSayAndNothingElseIsPlanned) {
  const std::size_t plain = Spirals(Sgd{}).bytes_of_variables();
  ASSERT_EQ(plain, 4 * kElements);
  const std::size_t blocks = 1 + 16 + 1 + 1 + 1 + 1, factors = (2 + 64) + (64 + 64) + (64 + 2), biases = 64 + 64 + 2;
  const std::vector<std::pair<Optimizer, std::size_t>> cases = {
      {Lion{}, 4 * kElements},
      {Lamb{}, 8 * kElements + kCounter},
      {Adam{}, 8 * kElements + kCounter},
      {Adafactor{}, 4 * (factors + biases) + kCounter},
      {Adam{.slots = SlotStorage::eight_bit}, 2 * kElements + 8 * blocks + kCounter},
      {AdamW{.slots = SlotStorage::eight_bit}, 2 * kElements + 8 * blocks + kCounter}};
  for (const auto& [optimizer, slots] : cases) {
    Spirals net(optimizer);
    EXPECT_EQ(net.bytes_of_variables() - plain, slots);
    std::size_t most = 0;
    for (const Value& variable : net.graph.values(kVariables)) most += round_up(variable.type().bytes());
    const std::size_t planned = net.persistent_bytes();
    EXPECT_GE(planned, net.bytes_of_variables());
    EXPECT_LE(planned, most);
  }
}

TEST(SmallSlots, TrainLikeSlotsOfF32) {
  const auto trained = [](const Optimizer& optimizer) {
    Spirals net(optimizer);
    for (std::int64_t step = 0; step < 250; ++step) (void)net.step(step);
    double sum = 0;
    for (std::int64_t step = 250; step < 280; ++step) sum += net.step(step);
    return sum / 30;
  };
  const double plain = trained(Adam{.learning_rate = 1e-2F});
  const double coded = trained(Adam{.learning_rate = 1e-2F, .slots = SlotStorage::eight_bit});
  const double decayed = trained(AdamW{.learning_rate = 1e-2F, .slots = SlotStorage::eight_bit});
  EXPECT_LT(plain, 0.2) << "of log 2 in the beginning";
  EXPECT_LT(coded, 1.25 * plain + 0.01);
  EXPECT_LT(decayed, 1.25 * plain + 0.02);
  EXPECT_LT(trained(Adafactor{.learning_rate = 0.05F}), 0.4);
  EXPECT_LT(trained(Lamb{.learning_rate = 2e-2F}), 0.4);
  EXPECT_LT(trained(Lion{.learning_rate = 2e-3F}), 0.4);
}

class SmallSlotsOf : public ::testing::TestWithParam<NamedOptimizer> {};

TEST_P(SmallSlotsOf, GiveTheSameBytesWithGroupsAndMicroBatches) {
  expect_exact({GetParam().name,
                [](Graph& graph, GraphSectionManager& manager) {
                  const SmallNet net(graph, manager);
                  manager.add_training_ops({{.variables = "*/kernel", .optimizer = GetParam().optimizer},
                                            {.optimizer = AdamW{.weight_decay = 0}}},
                                           net.loss, {.clip_norm = 1.0F, .micro_batches = 2, .skip_non_finite = true});
                  manager.prepare_training();
                  return TrainingNet{.loss = net.loss, .feeds = net.random_feeds(), .micro_batches = 2};
                }},
               {.steps = 4});
}

TEST_P(SmallSlotsOf, GiveTheSameBytesInABudgetThatIsFitted) {
  Spirals free(GetParam().optimizer);
  const auto report =
      free.session->plan({free.loss}, {{free.points, {Spirals::kBatch, 2}}, {free.labels, Shape{Spirals::kBatch}}},
                         {.targets = free.manager.training_operations()});
  const std::size_t budget = report.planned_peak_bytes - report.transient_bytes / 8;
  Spirals fitted(GetParam().optimizer, {.device_memory = budget, .host_memory = 64_MiB, .threads = 2, .seed = 5}, true);
  for (std::int64_t step = 0; step < 4; ++step) EXPECT_EQ(free.step(step), fitted.step(step));
  EXPECT_EQ(first_difference(TrainingState{read_variables(*free.session), {}},
                             TrainingState{read_variables(*fitted.session), {}}),
            "");
  EXPECT_LE(fitted.session->statistics().planned_peak_bytes, budget);
}

INSTANTIATE_TEST_SUITE_P(Cases, SmallSlotsOf, ::testing::ValuesIn(small_optimizers()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace sectionflow::testing
