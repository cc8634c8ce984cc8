// Data sets as a trainer's batches: passes, positions, and what is refused.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <type_traits>

#include "tests/support/temporary_folder.h"
#include "tests/train/small_training.h"

namespace sectionflow {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing_support::difference_of;
using testing_support::Hooks;
using testing_support::small_session;
using testing_support::SmallModel;
using testing_support::variables_of;

/// 21 examples, as the small model takes them.
Dataset small_data() {
  std::mt19937 words(5);
  HostTensor x(Dtype::f32, {21, 6}), label(Dtype::i32, {21});
  for (float& number : x.values<float>()) number = static_cast<float>(words() % 2001) / 1000.0F - 1.0F;
  for (std::int32_t& number : label.values<std::int32_t>()) number = static_cast<std::int32_t>(words() % 3);
  Example tensors;
  tensors.emplace("x", std::move(x));
  tensors.emplace("label", std::move(label));
  return Dataset::from(std::move(tensors));
}

/// Each example shifted by a random number of its own, in another order each pass: 3 batches.
Dataset small_batches(int threads = 1) {
  const auto shift = [](Example example, const MapContext& context) {
    for (float& number : example.at("x").values<float>()) number += context.uniform(0);
    return example;
  };
  return small_data()
      .shuffle({.seed = 1})
      .map(MapFunction(shift, "shift"), {.threads = threads, .seed = 2})
      .batch({.size = 8});
}

/// What two sources give differently within so many calls.
std::string difference_of(BatchSource& a, BatchSource& b, int calls) {
  for (int call = 0; call < calls; ++call) {
    const auto left = a.next(), right = b.next();
    if (left.has_value() != right.has_value()) return text_of("call ", call, ": the end of a pass");
    if (!left) continue;
    for (const auto& [name, tensor] : *left) {
      if (!bitwise_equal(tensor, right->at(name))) return text_of("call ", call, ": ", name);
    }
  }
  return "";
}

std::int64_t count_batches(BatchSource& source) {
  std::int64_t count = 0;
  while (source.next()) ++count;
  return count;
}

TEST(DatasetBatches, APassIsAnEpochOfTheDataSet) {
  const Dataset data = small_batches();
  DatasetBatches source(data);
  EXPECT_EQ(source.batches_per_pass(), 3);
  for (std::int64_t pass = 0; pass < 3; ++pass) {
    DatasetIterator epoch = data.iterate_epoch(pass);
    while (const auto expected = epoch.next()) {
      const auto batch = source.next();
      ASSERT_TRUE(batch.has_value());
      EXPECT_TRUE(bitwise_equal(batch->at("x"), expected->at("x")));
    }
    EXPECT_FALSE(source.next().has_value());
  }
  EXPECT_EQ(source.statistics().batches, 9);
  EXPECT_EQ(source.statistics().examples, 63);
}

TEST(DatasetBatches, OfADataSetThatRepeatsAPassIsAllItsEpochs) {
  DatasetBatches source(small_batches().repeat(2).prefetch());
  EXPECT_EQ(source.batches_per_pass(), 6);
  EXPECT_EQ(count_batches(source), 6);
  EXPECT_EQ(count_batches(source), 6);
  DatasetBatches filtered(small_data().filter([](const Example&) { return true; }).batch({.size = 8}));
  EXPECT_EQ(filtered.batches_per_pass(), std::nullopt);
  EXPECT_EQ(count_batches(filtered), 3);
  DatasetBatches empty(small_data().take(0).batch({.size = 8}));
  EXPECT_EQ(count_batches(empty), 0);
  EXPECT_EQ(count_batches(empty), 0);
}

TEST(DatasetBatches, GoOnFromEveryPosition) {
  for (const bool prefetches : {false, true}) {
    const auto data = [&](int threads) { return prefetches ? small_batches(threads).prefetch() : small_batches(); };
    DatasetBatches walked(data(1));
    for (int calls = 0; calls <= 9; ++calls) {
      SCOPED_TRACE(text_of(calls, " calls"));
      const std::string position = walked.position();
      DatasetBatches fresh(data(3)), expected(data(1));
      fresh.next();
      fresh.restore(position);
      EXPECT_EQ(fresh.position(), position);
      for (int call = 0; call < calls; ++call) expected.next();
      EXPECT_EQ(difference_of(fresh, expected, 9), "");
      walked.next();
    }
    walked.restore("");
    DatasetBatches begin(data(1));
    EXPECT_EQ(difference_of(walked, begin, 5), "");
  }
}

TEST(DatasetBatches, RefusePositionsOfOthersAndStayWhereTheyAre) {
  DatasetBatches source(small_batches()), expected(small_batches());
  DatasetBatches other(small_data().shuffle({.seed = 4}).batch({.size = 8}));
  source.next();
  expected.next();
  EXPECT_THAT(whole_error_text<ArgumentError>([&] { source.restore(other.position()); }),
              AllOf(HasSubstr("SF-E403"), HasSubstr("operation 1")));
  const std::string own = source.position();
  for (const std::string& text :
       {std::string("x"), std::string("0"), std::string("0 "), std::string("-1 {}"),
        std::string("9223372036854775807 {}"), std::string("99999999999999999999 {}"), own.substr(1), " " + own}) {
    EXPECT_THAT(whole_error_text<DataError>([&] { source.restore(text); }), HasSubstr("SF-E609")) << text;
  }
  for (const std::string& text : {std::string("0 {}"), own.substr(0, own.size() - 1), own + "}"}) {
    EXPECT_THAT(whole_error_text<DataError>([&] { source.restore(text); }), HasSubstr("SF-E404")) << text;
  }
  EXPECT_EQ(source.position(), own);
  EXPECT_EQ(difference_of(source, expected, 7), "");
}

TEST(DatasetBatches, GiveTheBatchAgainWhoseMapHasThrown) {
  for (const bool prefetches : {false, true}) {
    auto fails = std::make_shared<std::atomic<bool>>(false);
    const auto sometimes = [fails](Example example) {
      if (fails->exchange(false)) throw DataError("the disk has gone");
      return example;
    };
    const auto data = [&] {
      const Dataset mapped = small_data().map(MapFunction(sometimes, "sometimes")).batch({.size = 8});
      return prefetches ? mapped.prefetch() : mapped;
    };
    DatasetBatches expected(data());
    EXPECT_EQ(count_batches(expected), 3);
    expected.restore("");
    DatasetBatches source(data());
    *fails = true;
    EXPECT_THROW(source.next(), DataError);
    const std::string begin = expected.position();
    EXPECT_EQ(source.position(), begin);
    EXPECT_EQ(difference_of(source, expected, 4), "");
  }
}

TEST(DatasetBatches, WithoutAnEndNeedALengthOfEpochs) {
  SmallModel model(true);
  Session session(model.graph, small_session());
  session.initialize();
  Trainer trainer = model.trainer(session);
  LearningRate rate(model.rate, constant_rate(0.01));
  DatasetBatches endless(small_batches().repeat());
  EXPECT_EQ(endless.batches_per_pass(), kEndless);
  EXPECT_THAT(whole_error_text<ArgumentError>([&] { trainer.fit(endless, {.epochs = 2, .callbacks = {&rate}}); }),
              AllOf(HasSubstr("SF-E616"), HasSubstr("steps_per_epoch")));
  EXPECT_THAT(whole_error_text<ArgumentError>([&] { trainer.evaluate(endless); }), HasSubstr("SF-E616"));
  const History by_epochs = trainer.fit(endless, {.epochs = 2, .steps_per_epoch = 4, .callbacks = {&rate}});
  EXPECT_EQ(by_epochs.steps, 8);
  EXPECT_EQ(by_epochs.epochs.size(), 2U);
  EXPECT_EQ(trainer.fit(endless, {.steps = 5, .callbacks = {&rate}}).steps, 5);
  EXPECT_EQ(trainer.evaluate(endless, {.steps = 2}).size(), 2U);
}

TEST(DatasetBatches, TrainEvaluateAndPredictWithTheirPasses) {
  SmallModel model(false);
  Session session(model.graph, small_session());
  session.initialize();
  Trainer trainer = model.trainer(session);
  LearningRate rate(model.rate, constant_rate(0.01));
  DatasetBatches train(small_batches(2)), test(small_data().batch({.size = 8}).prefetch());
  std::vector<std::int64_t> per_epoch;
  Hooks hooks;
  hooks.step = [&](const TrainerState& state) { per_epoch.push_back(state.steps_per_epoch); };
  const History history = trainer.fit(train, {.epochs = 2, .validation = &test, .callbacks = {&rate, &hooks}});
  EXPECT_EQ(history.steps, 6);
  EXPECT_EQ(history.num_examples, 42);
  EXPECT_EQ(per_epoch, std::vector<std::int64_t>(6, 3));
  EXPECT_EQ(trainer.evaluate(test).at("loss"), history.epochs.back().logs.at("val_loss"));
  EXPECT_EQ(trainer.predict(test).at("logits").shape(), (Shape{21, 3}));
}

TEST(DatasetBatches, ShowWhatIsWaitedForInDataSeconds) {
  SmallModel model(true);
  Session session(model.graph, small_session());
  session.initialize();
  Trainer trainer = model.trainer(session);
  LearningRate rate(model.rate, constant_rate(0.01));
  const auto slow = [](Example example) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    return example;
  };
  DatasetBatches source(small_data().map(slow).batch({.size = 8}));
  double waited = 0;
  Hooks hooks;
  hooks.step = [&](const TrainerState& state) {
    EXPECT_GE(state.data_seconds, 0.002 * static_cast<double>(state.batch_size));
    waited += state.data_seconds;
  };
  const History history = trainer.fit(source, {.epochs = 1, .callbacks = {&rate, &hooks}});
  EXPECT_EQ(history.data_seconds, waited);
  EXPECT_GE(source.statistics().seconds_waited, 0.042);
}

TEST(DatasetBatches, ABatchThatWasNotTrainedComesAgain) {
  std::map<std::string, HostTensor> undisturbed;
  for (const bool is_disturbed : {false, true}) {
    SmallModel model(true);
    Session session(model.graph, small_session());
    session.initialize();
    Trainer trainer = model.trainer(session);
    LearningRate rate(model.rate, constant_rate(0.01));
    DatasetBatches source(small_batches(2).prefetch());
    bool throws = is_disturbed;
    Hooks hooks;
    hooks.step_begin = [&](const TrainerState& state, Feeds&) {
      if (state.step == 4 && std::exchange(throws, false)) throw std::runtime_error("not now");
    };
    if (is_disturbed) {
      EXPECT_THROW(trainer.fit(source, {.max_steps = 7, .callbacks = {&rate, &hooks}}), std::runtime_error);
      EXPECT_EQ(trainer.step(), 4);
    }
    trainer.fit(source, {.max_steps = 7, .callbacks = {&rate, &hooks}});
    if (!is_disturbed) undisturbed = variables_of(session);
    EXPECT_EQ(testing_support::difference_of(undisturbed, variables_of(session)), "");
  }
}

TEST(ImageBatches, OfATemporaryAreRefusedByTheCompiler) {
  EXPECT_FALSE((std::is_constructible_v<ImageBatches, LabeledImages>));
  EXPECT_FALSE((std::is_constructible_v<ImageBatches, LabeledImages, BatchLoaderOptions>));
  EXPECT_TRUE((std::is_constructible_v<ImageBatches, const LabeledImages&>));
  EXPECT_TRUE((std::is_constructible_v<ImageBatches, LabeledImages&, BatchLoaderOptions>));
}

}  // namespace
}  // namespace sectionflow
