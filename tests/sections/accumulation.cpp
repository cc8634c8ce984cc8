// Gradients that are summed over micro-batches: the same bits by every strategy, one update in so many cycles.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "fit/insert_swaps.h"
#include "graph/graph_file.h"
#include "swap/lms.h"
#include "tests/sections/accumulated_net.h"

namespace sectionflow::testing {
namespace {

TrainingCase accumulated_case(const Optimizer& optimizer, const TrainingOptions& options,
                              const LmsOptions* lms = nullptr) {
  return {
      text_of(options.micro_batches, " micro-batches"), [=](Graph& graph, GraphSectionManager& manager) {
        const AccumulatedNet net(graph, manager);
        manager.add_training_ops(optimizer, net.loss, options);
        manager.prepare_training();
        if (lms != nullptr) (void)Lms(*lms).run(graph);
        return TrainingNet{
            .loss = net.loss, .feeds = net.feeds(), .evaluated = {net.loss}, .micro_batches = options.micro_batches};
      }};
}

// ---- Every strategy.

TEST(Accumulation, EveryStrategyGivesTheSameBits) {
  expect_exact(accumulated_case(Adam{.learning_rate = 1e-2F}, {.micro_batches = 2}), {.steps = 6});
}

TEST(Accumulation, WithClippingSkippingAndAveragesEveryStrategyGivesTheSameBits) {
  expect_exact(accumulated_case(AdamW{.learning_rate = 1e-2F, .weight_decay = 0.1F}, all_options(3)), {.steps = 9});
}

TEST(Accumulation, InTheSmallestBudgetGivesTheSameBits) {
  const TrainingCase training_case = accumulated_case(Momentum{.learning_rate = 0.05F}, {.micro_batches = 2});
  const TrainingRecord whole = record_training(training_case, How::whole, {.steps = 5});
  for (const How how : {How::sections, How::halves}) {
    const TrainingRecord record = record_training(training_case, how, {.steps = 5, .budget = 0});
    EXPECT_EQ(first_difference(whole, record), "") << name_of(how);
    EXPECT_THAT(record.complaints, ::testing::IsEmpty()) << name_of(how);
  }
}

TEST(Accumulation, GivesTheSameBitsWhereTheWholeGraphIsOffloaded) {
  const TrainingCase plain_case = accumulated_case(Adam{.learning_rate = 1e-2F}, all_options(2));
  const TrainingRecord plain = record_training(plain_case, How::whole, {.steps = 5});
  TrainOptions swaps{.steps = 5};
  swaps.session.device_memory = 300_KiB;
  swaps.on_session = [](How, const Graph&, Session& session) { insert_swaps(session); };
  EXPECT_EQ(first_difference(plain, record_training(plain_case, How::whole, swaps)), "");
  const LmsOptions lms{.swapout_threshold = 1, .swapin_groupby = 0, .swapin_ahead = 1};
  const TrainingCase edited = accumulated_case(Adam{.learning_rate = 1e-2F}, all_options(2), &lms);
  EXPECT_EQ(first_difference(plain, record_training(edited, How::whole, {.steps = 5})), "");
}

TEST(Accumulation, GivesTheSameBitsWhereVariablesLieOnTheHost) {
  const TrainingCase training_case = accumulated_case(Adam{.learning_rate = 1e-2F}, all_options(2));
  TrainOptions on_host{.steps = 5};
  on_host.session.swap_variables = true;
  EXPECT_EQ(first_difference(record_training(training_case, How::whole, {.steps = 5}),
                             record_training(training_case, How::sections, on_host)),
            "");
}

TEST(Accumulation, OfOneMicroBatchIsTrainingWithoutIt) {
  const auto text_of_graph = [](const TrainingOptions& options) {
    Accumulating plain(options);
    return graph_text(plain.graph);
  };
  EXPECT_EQ(text_of_graph({.micro_batches = 1}), text_of_graph({}));
}

TEST(Accumulation, OfALoadedGraphGivesTheSameBits) {
  Accumulating built(all_options(2), Adam{});
  Graph loaded;
  load_graph_text(loaded, graph_text(built.graph));
  std::vector<Operation> targets = loaded.operations(kTrainingOperations);
  for (const auto collection : {kUpdateOperations, kAccumulationOperations}) {
    const auto more = loaded.operations(collection);
    targets.insert(targets.end(), more.begin(), more.end());
  }
  Session session(loaded, {.threads = 2, .seed = 7, .check_schedules = true});
  session.initialize();
  for (std::int64_t step = 0; step < 5; ++step) {
    (void)built.cycle(step);
    FeedStore store;
    Feeds feeds = built.net.feeds()(step, store);
    session.run({{loaded.find("images").output(), store[0]}, {loaded.find("labels").output(), store[1]}},
                {.targets = targets});
  }
  EXPECT_EQ(session.completed_cycles(), 2U);
  EXPECT_THAT(changed_names(read_variables(*built.session), read_variables(session)), ::testing::IsEmpty());
}

// ---- What it computes.

TEST(Accumulation, IsOneLargeBatchUpToRounding) {
  constexpr int kMicroBatches = 4;
  ProductRows large(1), small(kMicroBatches);
  for (std::int64_t update = 0; update < 3; ++update) {
    HostTensor all(Dtype::f32, {2 * kMicroBatches, 2});
    for (int k = 0; k < kMicroBatches; ++k) {
      const HostTensor part = random_images({2, 2}, 5, update * kMicroBatches + k);
      std::copy_n(part.values<float>().begin(), 4, all.values<float>().begin() + 4 * k);
      small.cycle(part);
    }
    large.cycle(all);
  }
  EXPECT_EQ(small.session->completed_cycles(), 3U);
  const HostTensor a = large.session->read(large.w), b = small.session->read(small.w);
  for (std::size_t i = 0; i < a.values<float>().size(); ++i) {
    EXPECT_NEAR(a.values<float>()[i], b.values<float>()[i], 1e-6F);
  }
}

TEST(Accumulation, SumsInOrderTimesOneOverTheirNumber) {
  ProductRows once(1), thrice(3);
  const Value gradient = once.manager.updates().gradients[0].gradient;
  std::vector<HostTensor> parts;
  for (int k = 0; k < 3; ++k) {
    const HostTensor rows = random_images({2, 2}, 5, k);
    // Of the weights that the three have in common.
    parts.push_back(std::move(once.session->run({gradient}, {{once.x, rows}})[0]));
    thrice.cycle(rows);
  }
  const HostTensor before = once.session->read(once.w), after = thrice.session->read(thrice.w);
  for (std::size_t i = 0; i < 6; ++i) {
    const float sum = (parts[0].values<float>()[i] + parts[1].values<float>()[i]) + parts[2].values<float>()[i];
    const float mean = sum * (1.0F / 3.0F);
    EXPECT_EQ(after.values<float>()[i], before.values<float>()[i] - 0.5F * mean) << i;
  }
}

TEST(Accumulation, UpdatesOnlyInTheLastMicroBatch) {
  Accumulating training({.micro_batches = 3}, Adam{});
  const Updates& updates = training.manager.updates();
  Variables before = read_variables(*training.session);
  for (std::int64_t step = 0; step < 9; ++step) {
    EXPECT_EQ(training.count(updates.micro_batch), step % 3);
    EXPECT_EQ(training.session->completed_cycles(), static_cast<std::uint64_t>(step / 3));
    (void)training.cycle(step);
    Variables after = read_variables(*training.session);
    for (const std::string& name : changed_names(before, after)) {
      const bool is_taken =
          name.ends_with("/gradient_sum") || name == "micro_batch" || name.find("moving") != std::string::npos;
      EXPECT_TRUE(step % 3 == 2 || is_taken) << name << " in step " << step;
    }
    EXPECT_EQ(bitwise_equal(before.at("conv2d/kernel"), after.at("conv2d/kernel")), step % 3 != 2) << step;
    before = std::move(after);
  }
  EXPECT_EQ(training.session->read(training.graph.find("adam_steps").output()).item<std::int64_t>(), 3);
}

TEST(Accumulation, RunningAveragesTakeEveryMicroBatchInOrder) {
  // Nothing else changes while the learning rate is 0.
  Accumulating one({}, Sgd{.learning_rate = 0.0F}), three({.micro_batches = 3}, Sgd{.learning_rate = 0.0F});
  // Behind dropout the statistics are of other numbers.
  for (std::int64_t step = 0; step < 3; ++step) {
    (void)one.cycle(step);
    (void)three.cycle(step);
  }
  int averages = 0;
  for (const Value& variable : one.graph.values(kVariables)) {
    const std::string& name = variable.name();
    if (!name.starts_with("batch_norm/") || is_trainable(variable)) continue;
    ++averages;
    EXPECT_TRUE(bitwise_equal(one.session->read(variable), three.session->read(three.graph.find(name).output())))
        << name;
  }
  EXPECT_EQ(averages, 2);
}

TEST(Accumulation, EachMicroBatchDrawsOtherNumbersAndTheFirstThoseOfNone) {
  Accumulating plain({}, Sgd{.learning_rate = 0.0F}), training({.micro_batches = 3}, Sgd{.learning_rate = 0.0F});
  const HostTensor without = std::move(plain.cycle(0, {plain.net.dropped[0]})[0]);
  std::vector<HostTensor> drawn;
  for (int k = 0; k < 6; ++k) drawn.push_back(std::move(training.cycle(0, {training.net.dropped[0]})[0]));
  EXPECT_TRUE(bitwise_equal(without, drawn[0]));
  for (std::size_t a = 0; a < drawn.size(); ++a) {
    for (std::size_t b = 0; b < a; ++b) EXPECT_FALSE(bitwise_equal(drawn[a], drawn[b])) << a << ", " << b;
  }
}

TEST(Accumulation, RunsAndForwardHalvesDrawWhatTheNextMicroBatchDraws) {
  Accumulating training({.micro_batches = 3});
  GraphSectionManager& manager = training.manager;
  Session& session = *training.session;
  const Value dropped = training.net.dropped[0];
  for (std::int64_t step = 0; step < 7; ++step) {
    FeedStore store;
    const Feeds feeds = training.net.feeds()(step, store);
    Feeds of_run = feeds;
    const HostTensor trains = HostTensor::scalar(true);
    of_run.emplace_back(training.graph.training(), trains);
    const auto [plain] = session.run({dropped}, of_run);
    const auto [half] = manager.run_forward(session, {dropped}, feeds);
    manager.discard_forward(session);
    const HostTensor taken = std::move(training.cycle(step, {dropped})[0]);
    EXPECT_TRUE(bitwise_equal(plain, taken)) << step;
    EXPECT_TRUE(bitwise_equal(half, taken)) << step;
    // That one is taken.
    EXPECT_FALSE(bitwise_equal(session.run({dropped}, of_run)[0], taken)) << step;
  }
}

TEST(Accumulation, InitialValuesAreTheSameAmidAnUpdate) {
  Accumulating training({.micro_batches = 3});
  const Variables begun = read_variables(*training.session);
  (void)training.cycle(0);
  training.session->initialize();
  EXPECT_THAT(changed_names(begun, read_variables(*training.session)), ::testing::IsEmpty());
}

TEST(Accumulation, GlobalStepCountsUpdates) {
  Graph graph;
  GraphSectionManager manager(graph);
  const AccumulatedNet net(graph, manager);
  const Value steps = variable("steps", fill(graph, {}, 0, Dtype::i64), {.trainable = false});
  manager.add_training_ops(Sgd{}, net.loss, {.global_step = steps, .micro_batches = 2});
  manager.prepare_training();
  Session session(graph, {.threads = 2});
  session.initialize();
  for (std::int64_t step = 0; step < 5; ++step) {
    FeedStore store;
    (void)manager.run_full_cycle(session, {net.loss}, net.feeds()(step, store));
    EXPECT_EQ(session.read(steps).item<std::int64_t>(), (step + 1) / 2);
  }
}

TEST(Accumulation, SumsMayBeFetchedInEveryMicroBatch) {
  Accumulating training({.micro_batches = 2, .summaries = true}, Sgd{.learning_rate = 0.0F});
  const Value mean = training.manager.updates().gradients[0].gradient;
  const auto first = training.cycle(0, {mean});
  const auto second = training.cycle(1, {mean});
  EXPECT_FALSE(bitwise_equal(first[0], second[0]));
  EXPECT_EQ(training.manager.gradient_summaries().size(), training.manager.updates().gradients.size());
  // What the update before has summed is not in the next.
  training.session->set_completed_cycles(0);
  EXPECT_TRUE(bitwise_equal(training.cycle(0, {mean})[0], first[0]));
}

}  // namespace
}  // namespace sectionflow::testing
