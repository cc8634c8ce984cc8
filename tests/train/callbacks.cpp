// Learning rates, early stopping, guards, statistics and progress.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <sstream>

#include "base/bytes.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/small_training.h"

namespace sectionflow {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;
using testing_support::Hooks;
using testing_support::small_batch;
using testing_support::small_session;
using testing_support::SmallModel;

/// A trainer of the small model with a number that the test sets: a metric "score" that is fed.
struct Scored {
  Scored() : model(false), session(model.graph, small_session()) {
    score = placeholder(model.graph, "score", {});
    session.initialize();
    TrainerOptions options = model.options();
    options.training_metrics["score"] = score * 1.0F;
    trainer.emplace(session, model.training, std::move(options), Where::here());
    feeder.step_begin = [this](const TrainerState& state, Feeds& feeds) {
      feeds.emplace_back(score, scores.at(static_cast<std::size_t>(state.step) / 3 % scores.size()));
    };
  }
  Scored(const Scored&) = delete;
  Scored& operator=(const Scored&) = delete;
  /// Epochs of three steps with these scores.
  History fit(std::vector<Callback*> callbacks, std::int64_t epochs) {
    callbacks.insert(callbacks.begin(), {&rate, &feeder});
    return trainer->fit(source, {.epochs = epochs, .callbacks = std::move(callbacks)});
  }

  SmallModel model;
  Session session;
  Value score;
  std::optional<Trainer> trainer;
  std::vector<double> scores = {1};
  Hooks feeder;
  LearningRate rate{model.rate, constant_rate(0.01)};
  FunctionBatches source{small_batch};
};

TEST(RateSchedules, AreTheFunctionsOfTheStepThatTheyAreNamedAfter) {
  EXPECT_EQ(constant_rate(0.5)(1000), 0.5);
  const RateSchedule steps = step_rate({10, 20}, {1, 0.1, 0.01});
  EXPECT_THAT((std::vector<double>{steps(0), steps(9), steps(10), steps(19), steps(20), steps(1000)}),
              ElementsAre(1, 1, 0.1, 0.1, 0.01, 0.01));
  EXPECT_DOUBLE_EQ(exponential_rate(2, 0.5, 10)(5), 2 * std::sqrt(0.5));
  EXPECT_DOUBLE_EQ(exponential_rate(2, 0.5, 10, true)(19), 1);
  const RateSchedule cosine = cosine_rate(1, 100, 0.2);
  EXPECT_DOUBLE_EQ(cosine(0), 1);
  EXPECT_NEAR(cosine(50), 0.6, 1e-12);
  EXPECT_DOUBLE_EQ(cosine(100), 0.2);
  EXPECT_DOUBLE_EQ(cosine(500), 0.2);
  EXPECT_DOUBLE_EQ(polynomial_rate(1, 0, 10)(4), 0.6);
  EXPECT_DOUBLE_EQ(polynomial_rate(1, 0.5, 10, 2)(10), 0.5);
  EXPECT_DOUBLE_EQ(polynomial_rate(1, 0.5, 10, 0)(10), 0.5);
  const RateSchedule warm = warm_up(4, cosine_rate(1, 10));
  EXPECT_DOUBLE_EQ(warm(0), 0.2);
  EXPECT_DOUBLE_EQ(warm(3), 0.8);
  EXPECT_DOUBLE_EQ(warm(4), 1);
  EXPECT_DOUBLE_EQ(warm(9), cosine_rate(1, 10)(5));
  EXPECT_DOUBLE_EQ(warm_up(0, constant_rate(3))(0), 3);
}

TEST(RateSchedules, RefuseWhatMeansNothing) {
  EXPECT_THROW(step_rate({10}, {1}), ArgumentError);
  EXPECT_THROW(step_rate({10, 10}, {1, 2, 3}), ArgumentError);
  EXPECT_THROW(exponential_rate(1, 0.5, 0), ArgumentError);
  EXPECT_THROW(cosine_rate(1, -1), ArgumentError);
  EXPECT_THROW(polynomial_rate(1, 0, 10, -1), ArgumentError);
  EXPECT_THROW(warm_up(-1, constant_rate(1)), ArgumentError);
  EXPECT_THROW(warm_up(1, nullptr), ArgumentError);
  SmallModel model(false);
  EXPECT_THROW(LearningRate(model.loss, constant_rate(1)), ArgumentError);
  EXPECT_THROW(LearningRate(model.label, constant_rate(1)), ArgumentError);
  EXPECT_THROW(LearningRate(model.rate, nullptr), ArgumentError);
  EXPECT_THROW(PlateauLearningRate(model.rate, {.factor = 1}), ArgumentError);
  EXPECT_THROW(PlateauLearningRate(model.rate, {.patience = -1}), ArgumentError);
}

TEST(PlateauLearningRate, FallsWhereANumberStandsStill) {
  Scored scored;
  scored.scores = {5, 4, 4, 4, 4, 4, 3, 3, 3};
  PlateauLearningRate plateau(
      scored.model.rate,
      {.rate = 1, .monitor = "score", .factor = 0.5, .patience = 1, .cooldown = 1, .least_rate = 0.3});
  std::vector<double> rates;
  Hooks hooks;
  hooks.epoch = [&](const TrainerState&) { rates.push_back(plateau.rate()); };
  scored.trainer->fit(scored.source, {.epochs = 9, .callbacks = {&scored.feeder, &plateau, &hooks}});
  // 4 bad, bad: falls; one to cool down; bad, then better; bad, bad.
  EXPECT_THAT(rates, ElementsAre(1, 1, 1, 0.5, 0.5, 0.5, 0.5, 0.5, 0.3));
}

TEST(EarlyStopping, StopsWhenANumberStandsStill) {
  Scored scored;
  scored.scores = {5, 4, 4.5, 4, 3.95, 4};
  EarlyStopping stopping({.monitor = "score", .patience = 2, .min_delta = 0.1});
  const History history = scored.fit({&stopping}, 100);
  EXPECT_EQ(history.epochs.size(), 5U);
  EXPECT_EQ(history.reason, StopReason::callback);
  EXPECT_THAT(history.why, AllOf(HasSubstr("'score' has not improved for 3 epochs"), HasSubstr("4 in epoch 2")));
  EXPECT_EQ(stopping.best(), 4);
  EXPECT_EQ(stopping.best_epoch(), 2);
}

TEST(EarlyStopping, WatchesLargerNumbersTargetsFirstEpochsAndNaN) {
  Scored scored;
  scored.scores = {1, 2, 3, 4, 5};
  EarlyStopping target({.monitor = "score", .maximize = true, .has_target = true, .target = 3});
  EXPECT_EQ(scored.fit({&target}, 100).epochs.size(), 3U);
  Scored nan;
  nan.scores = {std::numeric_limits<double>::quiet_NaN()};
  EarlyStopping patient({.monitor = "score", .patience = 1, .start_epoch = 4});
  EXPECT_EQ(nan.fit({&patient}, 100).epochs.size(), 5U);
  EXPECT_EQ(patient.best_epoch(), 0);
  EXPECT_THROW(EarlyStopping({.patience = -1}), ArgumentError);
}

TEST(EarlyStopping, WhatItHasEndedIsEndedAtOnceWhereItGoesOn) {
  const EarlyStoppingOptions standstill = {.monitor = "score", .patience = 1};
  const EarlyStoppingOptions target = {.monitor = "score", .has_target = true, .target = 3};
  for (const EarlyStoppingOptions& options : {standstill, target}) {
    Scored first;
    first.scores = {5, 4, 3, 3, 3, 3, 3, 3};
    EarlyStopping stopping(options);
    const History ended = first.fit({&stopping}, 100);
    ASSERT_EQ(ended.reason, StopReason::callback);
    for (int start = 0; start < 3; ++start) {
      Scored next;
      EarlyStopping again(options);
      next.trainer->restore(first.trainer->position());
      const History none = next.fit({&again}, 100);
      EXPECT_EQ(none.steps, 0);
      EXPECT_EQ(none.reason, StopReason::callback);
      EXPECT_THAT(none.why, AllOf(StartsWith("nothing is trained: an earlier start was ended since " + ended.why),
                                  HasSubstr(options.has_target ? "another target" : "more patience")));
      EXPECT_EQ(next.trainer->position(), first.trainer->position());
    }
    Scored patient;
    patient.scores = {7};
    patient.trainer->restore(first.trainer->position());
    EarlyStopping more({.monitor = "score", .patience = 3});
    EXPECT_GT(patient.fit({&more}, 100).steps, 0);
  }
}

TEST(EarlyStopping, SetsTheVariablesOfTheBestEpochAgainButNotAfterAnError) {
  for (const bool fails : {false, true}) {
    Scored scored;
    scored.scores = {5, 3, 4, 4};
    EarlyStopping stopping({.monitor = "score", .patience = 1, .restore_best = true});
    std::vector<std::map<std::string, HostTensor>> variables;
    Hooks hooks;
    hooks.epoch = [&](const TrainerState& state) {
      variables.push_back(testing_support::variables_of(state.session));
      if (fails && variables.size() == 4) throw std::runtime_error("planted");
    };
    try {
      scored.fit({&stopping, &hooks}, 100);
    } catch (const std::runtime_error&) {
    }
    ASSERT_EQ(variables.size(), 4U);
    const auto now = testing_support::variables_of(scored.session);
    EXPECT_EQ(testing_support::difference_of(now, variables[fails ? 3 : 1]), "");
    EXPECT_NE(testing_support::difference_of(variables[3], variables[1]), "");
  }
}

TEST(OutlierGuard, FindsJumpsUpwardsAndWhatIsNotFinite) {
  Scored scored;
  scored.scores = {1, 1.1, 0.9, 1, 1.1, 0.9, 1, 50, 1, -50, std::numeric_limits<double>::infinity()};
  OutlierGuard guard({.monitors = {"score"}, .window = 21, .least = 6, .z_score = 5});
  scored.fit({&guard}, 11);
  // The second and third step of a jump are none: the first is in the window by then.
  ASSERT_GE(guard.outliers().size(), 4U);
  EXPECT_EQ(guard.outliers()[0].step, 22);
  EXPECT_EQ(guard.outliers()[0].value, 50);
  EXPECT_GT(guard.outliers()[0].z_score, 100);
  EXPECT_EQ(guard.outliers().back().step, 33);
  EXPECT_THROW(OutlierGuard({.monitors = {}}), ArgumentError);
  EXPECT_THROW(OutlierGuard({.window = 10, .least = 11}), ArgumentError);
  EXPECT_THROW(OutlierGuard({.z_score = 0}), ArgumentError);
}

TEST(OutlierGuard, StopsOrThrowsWhereItIsTold) {
  Scored scored;
  scored.scores = {1, 1, 1, 9};
  OutlierGuard stops({.monitors = {"score"}, .least = 2, .action = OutlierAction::stop});
  const History history = scored.fit({&stops}, 10);
  EXPECT_EQ(history.steps, 10);
  EXPECT_THAT(history.why, HasSubstr("'score' is 9 in step 10"));
  EXPECT_THAT(history.why, HasSubstr("above the mean of the 9 steps before it"));
  Scored other;
  other.scores = {1, 1, 1, 9};
  OutlierGuard throws({.monitors = {"loss", "score"}, .least = 9, .action = OutlierAction::fail});
  EXPECT_THAT(whole_error_text<Error>([&] { other.fit({&throws}, 10); }),
              AllOf(HasSubstr("SF-E606"), HasSubstr("'score' is 9")));
  EXPECT_EQ(other.trainer->step(), 10);
  OutlierGuard unknown({.monitors = {"scores"}});
  EXPECT_THAT(whole_error_text<Error>([&] { other.fit({&unknown}, 1); }), HasSubstr("SF-E608"));
}

TEST(SavedCallbacks, OtherTextsAreRefused) {
  SmallModel model(false);
  OutlierGuard guard;
  EarlyStopping stopping;
  PlateauLearningRate plateau(model.rate);
  for (Callback* callback : std::vector<Callback*>{&guard, &stopping, &plateau}) {
    callback->restore(callback->save());
    EXPECT_THROW(callback->restore("x"), DataError) << callback->name();
    EXPECT_THROW(callback->restore(std::string(16, 'g')), DataError) << callback->name();
    EXPECT_THROW(callback->restore(std::string(160, 'f')), DataError) << callback->name();
  }
}

TEST(Statistics, HaveARowForEachStepOfTrainingAndEvaluation) {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "steps.csv").string();
  Scored scored;
  StatisticsCsv csv(path);
  FunctionBatches validation(small_batch);
  scored.trainer->fit(scored.source,
                      {.epochs = 2, .validation = &validation, .callbacks = {&scored.rate, &scored.feeder, &csv}});
  std::istringstream lines(bytes_of_file(path));
  std::vector<std::string> starts;
  for (std::string line; std::getline(lines, line);) {
    starts.push_back(line.substr(0, 6));
    EXPECT_EQ(std::count(line.begin(), line.end(), ','), 7) << line;
  }
  EXPECT_THAT(starts, ElementsAre("step t", "t,1,1,", "t,1,2,", "t,1,3,", "v,1,1,", "v,1,2,", "v,1,3,", "t,2,1,",
                                  "t,2,2,", "t,2,3,", "v,2,1,", "v,2,2,", "v,2,3,"));
  EXPECT_THROW(StatisticsCsv((folder.path() / "none" / "steps.csv").string()), DataError);
}

TEST(Statistics, AppendARowOfAveragesForEachTraining) {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "averages.csv").string();
  for (const std::int64_t start : {0, 100}) {
    Scored scored;
    StatisticsAverages averages(path, {.image_size = 64, .start_batch = start});
    scored.fit({&averages}, 2);
  }
  std::istringstream lines(bytes_of_file(path));
  std::string names, row, zeros, none;
  std::getline(lines, names);
  std::getline(lines, row);
  std::getline(lines, zeros);
  EXPECT_FALSE(std::getline(lines, none));
  EXPECT_EQ(names,
            "image_size,megapixels/sec,median megapixels/sec,GiB reclaimed,allocs,duration,num_steps,"
            "reclaimAlls,reclaimOnes");
  EXPECT_THAT(row, AllOf(StartsWith("64,"), HasSubstr(",4,0,0")));  // of each epoch two batches of 8
  EXPECT_EQ(zeros, "64,0,0,0,0,0,0,0,0");
  EXPECT_THROW(StatisticsAverages(path, {}), ArgumentError);
  EXPECT_THROW(StatisticsAverages(path, {.image_size = 1, .dims = 4}), ArgumentError);
}

TEST(ProgressCallback, PrintsStepsAndResultsOfEpochs) {
  Scored scored;
  std::ostringstream stream;
  double now = 0;
  Progress progress(
      {.stream = &stream, .is_terminal = false, .min_interval_seconds = 0.0, .now_seconds = [&] { return now++; }});
  FunctionBatches validation(small_batch);
  scored.trainer->fit(scored.source,
                      {.epochs = 1, .validation = &validation, .callbacks = {&scored.rate, &scored.feeder, &progress}});
  const std::string text = stream.str();
  EXPECT_THAT(text, AllOf(HasSubstr("epoch 1/1  step 1  loss "), HasSubstr("accuracy "), HasSubstr(" examples/s"),
                          HasSubstr("peak "), HasSubstr("epoch 1:  accuracy"), HasSubstr("val_loss ")));
  stream.str("");
  scored.trainer->fit(scored.source, {.steps = 3, .callbacks = {&scored.rate, &scored.feeder, &progress}});
  EXPECT_THAT(stream.str(), AllOf(HasSubstr("step 5/6"), HasSubstr("ETA ")));
}

TEST(ProgressCallback, TheLineOfAnEpochThatIsOverHasItsMeans) {
  Scored scored;
  std::ostringstream stream;
  double now = 0;
  Progress progress(
      {.stream = &stream, .is_terminal = false, .min_interval_seconds = 0.0, .now_seconds = [&] { return now++; }});
  // How many steps an epoch has is known behind the first.
  scored.trainer->fit(scored.source, {.epochs = 1, .callbacks = {&scored.rate, &scored.feeder}});
  const History history =
      scored.trainer->fit(scored.source, {.epochs = 2, .callbacks = {&scored.rate, &scored.feeder, &progress}});
  std::istringstream lines(stream.str());
  std::vector<std::string> ends;
  for (std::string line; std::getline(lines, line);) {
    if (line.find("step 3/3") != std::string::npos) ends.push_back(line);
  }
  ASSERT_EQ(ends.size(), 2U) << stream.str();
  for (std::size_t i = 0; i < ends.size(); ++i) {
    char mean[32];
    std::snprintf(mean, sizeof(mean), "loss %.4f ", history.of("loss").at(i));
    EXPECT_THAT(ends[i], AllOf(StartsWith(text_of("epoch ", i + 2, "/3")), HasSubstr(mean)));
  }
}

TEST(ProgressCallback, ThePeakIsThatOfTrainingWhateverHasBeenEvaluated) {
  Scored scored;
  std::ostringstream stream;
  Progress progress({.stream = &stream, .is_terminal = false, .min_interval_seconds = 0.0});
  std::size_t trained = 0;
  Hooks hooks;
  hooks.step = [&](const TrainerState& state) { trained = state.session.statistics().planned_peak_bytes; };
  // A batch of 400 examples, whose evaluation takes more than a step of 5.
  FunctionBatches validation([](std::int64_t, std::int64_t batch) -> std::optional<Example> {
    if (batch > 0) return std::nullopt;
    Example example;
    example.emplace("x", HostTensor(Dtype::f32, {400, 6}));
    example.emplace("label", HostTensor(Dtype::i32, {400}));
    return example;
  });
  scored.trainer->fit(
      scored.source,
      {.epochs = 1, .validation = &validation, .callbacks = {&scored.rate, &scored.feeder, &hooks, &progress}});
  ASSERT_GT(scored.session.statistics().planned_peak_bytes, trained);
  EXPECT_THAT(stream.str(),
              AllOf(HasSubstr("peak " + bytes_text(trained)),
                    testing::Not(HasSubstr("peak " + bytes_text(scored.session.statistics().planned_peak_bytes)))));
}

TEST(ProgressCallback, OfATrainingThatIsCompleteAlreadySaysSo) {
  Scored scored;
  std::ostringstream stream;
  Progress progress({.stream = &stream, .is_terminal = false});
  scored.trainer->fit(scored.source, {.max_epochs = 2, .callbacks = {&scored.rate, &scored.feeder}});
  EXPECT_EQ(scored.trainer->fit(scored.source, {.max_epochs = 2, .callbacks = {&progress}}).steps, 0);
  EXPECT_EQ(stream.str(), "nothing is left to train: 6 steps and 2 epochs are completed\n");
  stream.str("");
  EXPECT_EQ(scored.trainer->fit(scored.source, {.max_steps = 5, .callbacks = {&progress}}).steps, 0);
  EXPECT_THAT(stream.str(), StartsWith("nothing is left to train: 6 steps"));
}

TEST(ProgressCallback, TheLastStepIsShownWhereNoMeansFollow) {
  Scored scored;
  std::ostringstream stream;
  Progress progress({.stream = &stream, .is_terminal = false, .min_interval_seconds = 1e9});
  Hooks hooks;
  hooks.step = [](const TrainerState& state) {
    if (state.step == 4) throw std::runtime_error("planted");
  };
  EXPECT_THROW(scored.trainer->fit(
                   scored.source,
                   {.epochs = 4, .steps_per_epoch = 4, .callbacks = {&scored.rate, &scored.feeder, &progress, &hooks}}),
               std::runtime_error);
  EXPECT_THAT(stream.str(), HasSubstr("epoch 1/4  step 4/4  loss "));
}

TEST(FiniteCheck, NamesTheFirstOperationWhoseResultIsNoNumber) {
  for (const bool in_sections : {false, true}) {
    SmallModel model(in_sections);
    Session session(model.graph, small_session());
    session.initialize();
    Trainer trainer = model.trainer(session);
    LearningRate rate(model.rate, constant_rate(0.01));
    bool is_armed = true;
    FunctionBatches source([&](std::int64_t pass, std::int64_t batch) {
      auto example = small_batch(pass, batch);
      if (example && pass == 1 && batch == 1 && is_armed) {
        example->at("label").values<std::int32_t>()[5] = 7;
      }
      return example;
    });
    FiniteCheck check;
    const std::string text = whole_error_text<ArgumentError>([&] {
      trainer.fit(source, {.max_epochs = 2, .callbacks = {&rate, &check}});
    });
    EXPECT_THAT(text, AllOf(StartsWith("SF-E605"), HasSubstr("softmax_cross_entropy"), HasSubstr("element [5] of its"),
                            HasSubstr("is nan"), HasSubstr("'label' i32[8]: "), HasSubstr(" to 7")));
    EXPECT_THAT(text, HasSubstr(in_sections ? "section 1 'second'" : "SF-E605"));
    EXPECT_EQ(trainer.step(), 4);
    EXPECT_FALSE(session.value_checks().any());
    is_armed = false;
    // A moving average may have been updated before it was found.
    session.initialize();
    EXPECT_EQ(trainer.fit(source, {.max_epochs = 2, .callbacks = {&rate, &check}}).steps, 2);
  }
}

}  // namespace
}  // namespace sectionflow
