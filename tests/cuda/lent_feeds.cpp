// Feeds in memory that the session lends, on a device with queues: copied from where they lie, in recordings too.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>

#include "runtime/engine.h"
#include "runtime/lent_memory.h"
#include "runtime/queue_program.h"
#include "sectionflow.h"
#include "tests/support/emulated_device.h"
#include "tests/support/log_lines.h"

namespace sectionflow::lent_feeds {
namespace {

using namespace testing_support;
using testing::Contains;
using testing::HasSubstr;

/// A model of two sections that both read the images, so that a cycle copies them in more than once.
struct Training {
  explicit Training(bool in_sections, SessionOptions options) {
    if (in_sections) manager.emplace(graph);
    const auto section = [&] { return in_sections ? std::optional(manager->new_section()) : std::nullopt; };
    x = placeholder(graph, "x", {kDynamic, 24});
    const Value label = placeholder(graph, "label", {kDynamic}, Dtype::i32);
    Value hidden, loss;
    {
      const auto scope = section();
      hidden = relu(dense(x, {.features = 24}));
    }
    {
      const auto scope = section();
      hidden = dense(hidden + x, {.features = 4});
      loss = mean(softmax_cross_entropy(hidden, label));
    }
    std::vector<Operation> operations;
    if (in_sections) {
      manager->add_training_ops(Adam{.learning_rate = 1e-2F}, loss);
      manager->prepare_training();
    } else {
      operations = minimize(Adam{.learning_rate = 1e-2F}, loss);
    }
    options.device_memory = 2_MiB;
    options.seed = 3;
    session.emplace(graph, options);
    session->initialize();
    const TrainerOptions values{.loss = loss};
    if (in_sections) {
      trainer.emplace(*session, *manager, values);
    } else {
      trainer.emplace(*session, operations, values);
    }
  }
  Training(const Training&) = delete;
  Training& operator=(const Training&) = delete;

  /// Every variable after `steps` steps of batches of 8, made ahead by a thread; `look` is called behind each.
  std::vector<HostTensor> trained(std::int64_t steps, std::function<void()> look = {}) {
    struct Look : Callback {
      void on_step(const TrainerState&) override {
        if (call) call();
      }
      std::function<void()> call;
    } callback;
    callback.call = std::move(look);
    DatasetBatches source(batches());
    trainer->fit(source, {.steps = steps, .callbacks = {&callback}});
    std::vector<HostTensor> variables;
    for (Value variable : graph.values(kVariables)) variables.push_back(session->read(variable));
    return variables;
  }
  static Dataset batches() {
    std::mt19937 words(5);
    HostTensor x(Dtype::f32, {48, 24}), label(Dtype::i32, {48});
    for (float& number : x.values<float>()) number = static_cast<float>(words() % 2001) / 1000.0F - 1.0F;
    for (std::int32_t& number : label.values<std::int32_t>()) number = static_cast<std::int32_t>(words() % 4);
    Example tensors;
    tensors.emplace("x", std::move(x));
    tensors.emplace("label", std::move(label));
    return Dataset::from(std::move(tensors)).shuffle({.seed = 1}).batch({.size = 8}).prefetch();
  }
  std::shared_ptr<LentMemory> memory() { return engine(*session).lent_memory(); }
  /// How many feeds of the last cycle went to the device from where they lay; there are two.
  int num_direct() {
    int count = 0;
    for (const std::byte* source : engine(*session).latest_program()->queue->feed_sources()) {
      if (source != nullptr && memory() != nullptr && memory()->is_pinned(source, 1)) ++count;
    }
    return count;
  }
  bool is_recorded() {
    const Executable& program = *engine(*session).latest_program();
    return program.queue->recording(0, static_cast<StepIndex>(program.schedule.steps.size())) != nullptr;
  }

  Graph graph;
  std::optional<GraphSectionManager> manager;
  Value x;
  std::optional<Session> session;
  std::optional<Trainer> trainer;
};

void expect_same(const std::vector<HostTensor>& a, const std::vector<HostTensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_EQ(first_difference(a[i], b[i]), "");
}

TEST(LentFeeds, AreCopiedFromWhereTheyLieWithTheSameBytesRecordedOrNot) {
  for (const bool in_sections : {false, true}) {
    const auto expected = Training(in_sections, {.threads = 1}).trained(9);
    for (std::uint64_t seed = 0; seed < 6; ++seed) {
      const EmulatedCuda gpu({.kernels = EmulatedKernels::cpu, .seed = seed});
      for (const bool records : {false, true}) {
        SCOPED_TRACE(text_of(in_sections ? "sections" : "whole", ", seed ", seed, records ? ", recorded" : ""));
        Training training(in_sections, {.device = cuda(), .record_cycles = records});
        int steps = 0;
        expect_same(training.trained(9,
                                     [&] {
                                       EXPECT_EQ(training.is_recorded(), records && ++steps > 1) << steps;
                                       EXPECT_EQ(training.num_direct(), 2);
                                     }),
                    expected);
        EXPECT_EQ(training.memory()->figures().lent_blocks, 0U);
      }
    }
  }
}

TEST(LentFeeds, GoByPinnedMemoryOfTheProgramsWhereNoneIsLent) {
  const EmulatedCuda gpu({.kernels = EmulatedKernels::cpu});
  const auto expected = Training(true, {.threads = 1}).trained(9);
  Training none(true, {.device = cuda(), .lent_memory = 0});
  expect_same(none.trained(9, [&] { EXPECT_EQ(none.num_direct(), 0); }), expected);
  // One block: now the images, now the labels, now neither.
  Training little(true, {.device = cuda(), .lent_memory = 4096});
  expect_same(little.trained(9, [&] { EXPECT_LE(little.num_direct(), 1); }), expected);
}

TEST(LentFeeds, OfARecordingThatCannotBeChangedAreExecutedStepByStep) {
  const auto expected = Training(true, {.threads = 1}).trained(9);
  const EmulatedCuda gpu({.kernels = EmulatedKernels::cpu, .refuses_feeds = true});
  const LogLines log;
  Training training(true, {.device = cuda()});
  expect_same(training.trained(9), expected);
  EXPECT_THAT(log.lines, Contains(HasSubstr("cannot be given other feeds")));
}

TEST(LentFeeds, AreNotPinnedByTheSessionThatHasEnded) {
  DatasetBatches source(Training::batches());
  Example kept;
  {
    // A device with something still pinned aborts at its end.
    const EmulatedCuda gpu({.kernels = EmulatedKernels::cpu});
    Training training(false, {.device = cuda()});
    training.trainer->fit(source, {.steps = 2});
    kept = *source.next();
    EXPECT_TRUE(training.memory()->is_pinned(kept.at("x").bytes(), kept.at("x").num_bytes()));
  }
  DatasetBatches reference(Training::batches());
  for (int i = 0; i < 2; ++i) (void)reference.next();
  EXPECT_TRUE(bitwise_equal(kept.at("x"), reference.next()->at("x")));
  // Fed to another session it is anybody's memory.
  const EmulatedCuda gpu({.kernels = EmulatedKernels::cpu});
  Training next(false, {.device = cuda()}), expected(false, {.threads = 1});
  next.trainer->fit(source, {.steps = 3});
  expected.trainer->fit(reference, {.steps = 3});
  expect_same(next.trained(1), expected.trained(1));
}

}  // namespace
}  // namespace sectionflow::lent_feeds
