// Accumulated gradients in files, halves and budgets, and what of them is refused.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph_file.h"
#include "runtime/engine.h"
#include "tests/sections/accumulated_net.h"
#include "tests/support/temporary_folder.h"
#include "train/checkpoint.h"

namespace sectionflow::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// ---- Files, halves, budgets.

TEST(Accumulation, SavedBetweenMicroBatchesGoesOnWithTheSameBits) {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "amid.safetensors").string();
  const TrainingOptions options = all_options(3);
  Accumulating straight(options, Adam{}), stopped(options, Adam{}), resumed(options, Adam{});
  for (std::int64_t step = 0; step < 8; ++step) (void)straight.cycle(step);
  for (std::int64_t step = 0; step < 5; ++step) (void)stopped.cycle(step);
  save_variables(*stopped.session, path);
  (void)load_variables(*resumed.session, path);
  for (std::int64_t step = 5; step < 8; ++step) (void)resumed.cycle(step);
  EXPECT_THAT(changed_names(read_variables(*straight.session), read_variables(*resumed.session)), ::testing::IsEmpty());
  EXPECT_EQ(resumed.session->completed_cycles(), 2U);
}

TEST(Accumulation, AForwardHalfThatIsDiscardedTakesNoMicroBatch) {
  Accumulating training({.micro_batches = 2});
  const Value counter = training.manager.updates().micro_batch;
  FeedStore store;
  const Feeds feeds = training.net.feeds()(0, store);
  const auto dropped = training.manager.run_forward(*training.session, {training.net.dropped[1]}, feeds);
  training.manager.discard_forward(*training.session);
  EXPECT_EQ(training.count(counter), 0);
  const auto again = training.manager.run_forward(*training.session, {training.net.dropped[1]}, feeds);
  EXPECT_TRUE(bitwise_equal(dropped[0], again[0]));
  // A backward half of its own, with fetches of two runs.
  const auto fetched = training.manager.run_backward(
      *training.session, std::vector<std::vector<Value>>{{training.net.dropped[0]}, {training.net.dropped[1]}});
  EXPECT_TRUE(bitwise_equal(fetched[1][0], dropped[0]));
  EXPECT_EQ(training.count(counter), 1);
  EXPECT_EQ(training.session->completed_cycles(), 0U);
}

TEST(Accumulation, PlanIsOfTheFullestMicroBatchAndNoUpdateBeginsThatCannotEnd) {
  ProductRows probe(2, Adam{});
  const HostTensor rows = random_images({64, 2}, 5, 0);
  const ProgramReport report = probe.manager.plan(*probe.session, {probe.loss}, {{probe.x, Shape{64, 2}}});
  EXPECT_THAT(report.notes, ::testing::Contains(HasSubstr("summed over micro-batches")));
  const std::size_t planned = report.planned_peak_bytes;
  std::size_t highest = 0;
  for (int k = 0; k < 2; ++k) {
    probe.cycle(rows);
    highest = std::max(highest, probe.session->statistics().planned_peak_bytes);
  }
  EXPECT_EQ(planned, highest);
  // The plan of the whole graph is the same in every budget.
  const RunOptions training{.targets = probe.manager.training_operations()};
  const std::size_t whole = probe.session->plan({probe.loss}, {{probe.x, Shape{64, 2}}}, training).planned_peak_bytes;
  Session tight(probe.graph, {.device_memory = whole - 1, .threads = 1});
  tight.initialize();
  const Variables before = read_variables(tight);
  EXPECT_THROW(tight.run({probe.loss}, {{probe.x, rows}}, training), BudgetError);
  EXPECT_THAT(changed_names(before, read_variables(tight)), ::testing::IsEmpty());
  Session enough(probe.graph, {.device_memory = whole, .threads = 1});
  enough.initialize();
  for (int k = 0; k < 4; ++k) (void)enough.run({probe.loss}, {{probe.x, rows}}, training);
  EXPECT_EQ(enough.completed_cycles(), 2U);
}

/// A dense net whose last micro-batch takes more than those before it.
struct CappedRun {
  explicit CappedRun(std::optional<std::size_t> device_memory = std::nullopt) {
    updates = training_updates({ParameterGroup{.optimizer = Adam{}, .weight_decay = 0.01F}}, loss,
                               {.clip_norm = 1.0F, .micro_batches = 4});
    SessionOptions options{.threads = 1, .check_schedules = true};
    if (device_memory) options.device_memory = *device_memory;
    session = std::make_unique<Session>(graph, options);
    session->initialize();
  }
  RunOptions training() const { return {.targets = updates.operations}; }
  void run() { (void)session->run({loss}, {{x, random_images({8, 64}, 5, 0)}}, training()); }
  std::size_t latest_peak() const { return engine(*session).latest_program()->report.planned_peak_bytes; }
  std::int64_t taken() const { return session->read(updates.micro_batch).item<std::int64_t>(); }

  Graph graph;
  Value x = placeholder(graph, "x", {kDynamic, 64});
  Value loss = reduce_mean(square(dense(relu(dense(x, {.features = 64})), {.features = 64})));
  Updates updates;
  std::unique_ptr<Session> session;
};

TEST(Accumulation, NoUpdateBeginsThatCannotEndHoweverOftenItIsTried) {
  CappedRun probe;
  probe.run();
  const std::size_t first = probe.latest_peak();
  for (int k = 1; k < 4; ++k) probe.run();
  const std::size_t last = probe.latest_peak();
  ASSERT_LT(first, last);
  CappedRun tight((first + last) / 2);
  for (int k = 0; k < 3; ++k) EXPECT_THROW(tight.run(), BudgetError) << k;
  EXPECT_EQ(tight.taken(), 0);
  CappedRun planned((first + last) / 2);
  EXPECT_FALSE(planned.session->plan({planned.loss}, {{planned.x, Shape{8, 64}}}, planned.training()).fits);
  EXPECT_THROW(planned.run(), BudgetError);
  EXPECT_EQ(planned.taken(), 0);
  // Without its operations there is no update that could end or not.
  EXPECT_NO_THROW((void)planned.session->run({planned.loss}, {{planned.x, random_images({8, 64}, 5, 0)}}));
}

TEST(Accumulation, NoUpdateBeginsThatCannotEndAmidOneOfAnotherOptimiser) {
  struct Turns {
    Graph graph;
    Value a = variable("a", fill(graph, {3}, 1)), b = variable("b", fill(graph, {4096}, 1));
    Updates of_a = training_updates(Sgd{}, reduce_sum(a * 2.0F), {.micro_batches = 3}, {a});
    Updates of_b = training_updates(Adam{}, reduce_sum(square(b)), {.clip_norm = 1.0F, .micro_batches = 2}, {b});
  };
  Turns probe;
  Session wide(probe.graph, {.threads = 1});
  wide.initialize();
  (void)wide.run({}, {.targets = probe.of_b.operations});
  const std::size_t first = engine(wide).latest_program()->report.planned_peak_bytes;
  (void)wide.run({}, {.targets = probe.of_b.operations});
  const std::size_t last = engine(wide).latest_program()->report.planned_peak_bytes;
  ASSERT_LT(first, last);
  Turns turns;
  Session tight(turns.graph, {.device_memory = (first + last) / 2, .threads = 1});
  tight.initialize();
  (void)tight.run({}, {.targets = turns.of_a.operations});
  EXPECT_THROW((void)tight.run({}, {.targets = turns.of_b.operations}), BudgetError);
  EXPECT_EQ(tight.read(turns.of_b.micro_batch).item<std::int64_t>(), 0);
  for (int k = 1; k < 3; ++k) (void)tight.run({}, {.targets = turns.of_a.operations});
  EXPECT_EQ(tight.completed_cycles(), 1U);
}

TEST(Accumulation, WhatTheMemoryForProgramsCannotHoldIsCompiledAgain) {
  Accumulating kept({.micro_batches = 2});
  Accumulating evicted({.micro_batches = 2}, Sgd{.learning_rate = 0.1F},
                       {.program_memory = 0, .threads = 2, .seed = 7, .check_schedules = true});
  for (std::int64_t step = 0; step < 4; ++step) {
    (void)kept.cycle(step);
    (void)evicted.cycle(step);
  }
  EXPECT_THAT(changed_names(read_variables(*kept.session), read_variables(*evicted.session)), ::testing::IsEmpty());
  EXPECT_EQ(evicted.session->completed_cycles(), 2U);
}

TEST(Accumulation, TwoOptimisersMayAccumulateByTurns) {
  Graph graph;
  const Value a = variable("a", fill(graph, {3}, 1)), b = variable("b", fill(graph, {3}, 1));
  const Updates of_a = training_updates(Sgd{.learning_rate = 1}, reduce_sum(a * 2.0F), {.micro_batches = 2}, {a});
  const Updates of_b = training_updates(Sgd{.learning_rate = 1}, reduce_sum(b * 4.0F), {.micro_batches = 3}, {b});
  Session session(graph, {.threads = 1, .check_schedules = true});
  session.initialize();
  for (int k = 0; k < 6; ++k) {
    session.run({}, {.targets = of_a.operations});
    session.run({}, {.targets = of_b.operations});
  }
  EXPECT_EQ(session.read(a).values<float>()[0], 1 - 3 * 2.0F);
  EXPECT_EQ(session.read(b).values<float>()[0], 1 - 2 * 4.0F);
  EXPECT_EQ(session.completed_cycles(), 5U);
}

// ---- What is refused.

TEST(Accumulation, CountsBelowOneAreRefusedAndAddNothing) {
  Graph graph;
  GraphSectionManager manager(graph);
  const AccumulatedNet net(graph, manager);
  const std::string before = graph_text(graph);
  for (const int count : {0, -3}) {
    EXPECT_THAT([&] { manager.add_training_ops(Sgd{}, net.loss, {.micro_batches = count}); },
                ThrowsMessage<ArgumentError>(AllOf(HasSubstr("SF-E033"), HasSubstr("wanted 1 or more"))));
  }
  EXPECT_EQ(graph_text(graph), before);
  EXPECT_FALSE(manager.is_prepared());
  manager.add_training_ops(Sgd{}, net.loss, {.micro_batches = 2});
}

TEST(Accumulation, WhichMicroBatchIsTheLastIsNotToBeFed) {
  Accumulating training({.micro_batches = 2});
  FeedStore store;
  Feeds feeds = training.net.feeds()(0, store);
  feeds.push_back({training.graph.find("last_micro_batch").output(), true});
  EXPECT_THAT([&] { (void)training.manager.run_full_cycle(*training.session, {training.net.loss}, feeds); },
              ThrowsMessage<ArgumentError>(AllOf(HasSubstr("SF-E033"), HasSubstr("'last_micro_batch' is fed"))));
}

TEST(Accumulation, CounterThatTellsOfNoMicroBatchIsRefusedUntilItIsWritten) {
  Accumulating training({.micro_batches = 2});
  const Value counter = training.manager.updates().micro_batch;
  for (const std::int64_t wrong : {std::int64_t{2}, std::int64_t{-1}, std::int64_t{1} << 40}) {
    training.session->write(counter, HostTensor::scalar(wrong));
    EXPECT_THAT([&] { (void)training.cycle(0); },
                ThrowsMessage<ArgumentError>(AllOf(HasSubstr("SF-E033"), HasSubstr("wanted 0 to 1"))));
  }
  training.session->write(counter, HostTensor::scalar(std::int64_t{0}));
  (void)training.cycle(0);
  EXPECT_EQ(training.count(counter), 1);
}

TEST(Accumulation, CollectionOfAFileThatTellsNoneIsRefused) {
  Accumulating training({.micro_batches = 2});
  training.graph.add_to_collection(kMicroBatches, training.net.loss);
  EXPECT_THAT([&] { (void)training.cycle(0); },
              ThrowsMessage<ArgumentError>(AllOf(HasSubstr("SF-E033"), HasSubstr("three for each"))));
  training.graph.add_to_collection(kMicroBatches, training.net.loss);
  training.graph.add_to_collection(kMicroBatches, training.net.loss);
  EXPECT_THAT([&] { (void)training.cycle(0); }, ThrowsMessage<ArgumentError>(HasSubstr("wanted a variable i64[]")));
}

}  // namespace
}  // namespace sectionflow::testing
