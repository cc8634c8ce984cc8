// Learning rates, guards and statistics.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "tests/support/log_lines.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/small_training.h"
#include "train/saved_numbers.h"

namespace sectionflow {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;
using testing_support::Hooks;
using testing_support::Scored;
using testing_support::small_batch;
using testing_support::small_session;
using testing_support::SmallModel;
using testing_support::SmallTraining;

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

TEST(RateSchedules, RefuseRatesThatAreNegativeOrNoNumbers) {
  SmallModel model(false);
  for (const double rate : {-0.1, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    EXPECT_THAT(whole_error_text<ArgumentError>([&] { constant_rate(rate); }),
                AllOf(HasSubstr("constant_rate: rate is "), HasSubstr("wanted a number of 0 or more"),
                      HasSubstr("where:   callbacks.cpp:")));
    EXPECT_THROW(step_rate({10}, {1, rate}), ArgumentError);
    EXPECT_THROW(exponential_rate(rate, 0.5, 10), ArgumentError);
    EXPECT_THROW(exponential_rate(1, rate, 10), ArgumentError);
    EXPECT_THROW(cosine_rate(rate, 10), ArgumentError);
    EXPECT_THROW(cosine_rate(1, 10, rate), ArgumentError);
    EXPECT_THROW(polynomial_rate(1, rate, 10), ArgumentError);
    EXPECT_THROW(PlateauLearningRate(model.rate, {.rate = rate}), ArgumentError);
    testing_support::SmallTraining small(false);
    FunctionBatches source(small_batch);
    LearningRate own(small.model.rate, [rate](std::int64_t step) { return step == 1 ? rate : 0.01; });
    EXPECT_THAT(whole_error_text<ArgumentError>([&] { small.trainer.fit(source, {.steps = 3, .callbacks = {&own}}); }),
                AllOf(HasSubstr("LearningRate: the schedule gives "), HasSubstr(" for step 1;")));
    EXPECT_EQ(small.trainer.step(), 1);
  }
  EXPECT_EQ(constant_rate(0)(5), 0);
}

TEST(MonitoredNumbers, OfWhichTheWrongSideIsSoughtAreWarnedOf) {
  const testing_support::LogLines log;
  std::ptrdiff_t seen = 0;
  const auto warned = [&](Callback& callback) {
    testing_support::SmallTraining small(false);
    FunctionBatches source(small_batch);
    small.trainer.fit(source, {.steps = 1, .callbacks = {&small.rate, &callback}});
    small.trainer.fit(source, {.steps = 1, .callbacks = {&small.rate, &callback}});
    const auto count = std::count_if(log.lines.begin(), log.lines.end(), [](const std::string& line) {
      return line.find("set higher_is_better = ") != std::string::npos;
    });
    return std::exchange(seen, count) != count;
  };
  EarlyStopping smallest({.monitor = "accuracy"}), largest({.monitor = "accuracy", .higher_is_better = true});
  EarlyStopping loss({.monitor = "loss"}), largest_loss({.monitor = "loss", .higher_is_better = true});
  EXPECT_TRUE(warned(smallest));
  EXPECT_EQ(log.lines.size(), 1U) << "once";
  EXPECT_FALSE(warned(largest));
  EXPECT_FALSE(warned(loss));
  EXPECT_TRUE(warned(largest_loss));
  const TemporaryFolder folder;
  Checkpoints worst((folder.path() / "run").string(), {.best_metric = "accuracy"});
  CheckpointCallback saving(worst);
  EXPECT_TRUE(warned(saving));
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

TEST(LearningRate, OfWhichNothingReadsThePlaceholderIsWarnedOf) {
  Scored scored;
  const Value unread = placeholder(scored.model.graph, "unread", {});
  LearningRate idle(unread, constant_rate(0.1));
  const testing_support::LogLines log;
  scored.fit({}, 1);
  EXPECT_THAT(log.lines, testing::Not(testing::Contains(HasSubstr("no optimiser reads"))));
  scored.trainer->fit(scored.source, {.epochs = 1, .callbacks = {&scored.rate, &scored.feeder, &idle}});
  EXPECT_THAT(log.lines, testing::Contains(HasSubstr("LearningRate: no optimiser reads 'unread'")));
}

TEST(PlateauLearningRate, BeginsAnewWithAnotherTraining) {
  Scored scored;
  PlateauLearningRate plateau(scored.model.rate, {.rate = 1, .monitor = "score", .factor = 0.5, .patience = 0});
  const auto rate_after = [&](std::int64_t epochs) {
    scored.trainer->fit(scored.source, {.epochs = epochs, .callbacks = {&scored.feeder, &plateau}});
    return plateau.rate();
  };
  EXPECT_EQ(rate_after(3), 0.25);
  EXPECT_EQ(rate_after(1), 0.125) << "the same training goes on";
  TrainerOptions options = scored.model.options();
  options.training_metrics["score"] = scored.score * 1.0F;
  scored.trainer.emplace(scored.session, scored.model.training, std::move(options), Where::here());
  EXPECT_EQ(rate_after(1), 1);
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

TEST(OutlierGuard, GoesOnWithItsWindowBehindAnErrorAndNotInAnotherTraining) {
  Scored scored;
  scored.scores = {1, 1, 1, 9};
  OutlierGuard guard({.monitors = {"score"}, .least = 9, .action = OutlierAction::stop});
  Hooks fails;
  bool is_armed = true;
  fails.step = [&](const TrainerState& state) {
    if (state.step == 7 && std::exchange(is_armed, false)) throw std::runtime_error("planted");
  };
  EXPECT_THROW(scored.fit({&guard, &fails}, 10), std::runtime_error);
  EXPECT_THAT(scored.fit({&guard, &fails}, 10).why, HasSubstr("'score' is 9 in step 10"));
  Scored other;
  other.scores = {20};
  EXPECT_EQ(other.fit({&guard}, 3).steps, 9) << "what it knew was of another training";
}

TEST(OutlierGuard, WithASmallerWindowThanItWasSavedWithKeepsThat) {
  Scored scored;
  scored.scores = {1, 2};
  OutlierGuard wide({.monitors = {"score"}, .window = 20, .least = 2, .z_score = 100});
  scored.fit({&wide}, 12);
  OutlierGuard narrow({.monitors = {"score"}, .window = 4, .least = 2, .z_score = 100});
  scored.fit({&narrow}, 12);
  const std::size_t length = narrow.save().size();
  ASSERT_LT(length, wide.save().size());
  narrow.restore(wide.save());
  EXPECT_EQ(narrow.save().size(), length);
}

TEST(PlateauLearningRate, GoesOnFromNoRateThatNobodyCouldHaveSaved) {
  SmallModel model(false);
  for (const double rate : {-1.0, std::numeric_limits<double>::infinity(), std::nan("")}) {
    PlateauLearningRate plateau(model.rate, {.rate = 0.5});
    EXPECT_THROW(plateau.restore(saved_numbers({rate, 0, 0, 0, 0})), DataError) << rate;
    EXPECT_EQ(plateau.rate(), 0.5);
  }
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
}

TEST(Statistics, MakeTheFoldersOfTheirFiles) {
  const TemporaryFolder folder;
  const auto steps = folder.path() / "a" / "b" / "steps.csv", averages = folder.path() / "c" / "d" / "averages.csv";
  Scored scored;
  StatisticsCsv csv(steps.string());
  StatisticsAverages rows(averages.string(), {.image_size = 8});
  scored.fit({&csv, &rows}, 1);
  EXPECT_TRUE(std::filesystem::exists(steps));
  EXPECT_TRUE(std::filesystem::exists(averages));
  EXPECT_EQ(csv.failures(), 0);
  const std::string file = folder.file("file", "in the way").string();
  EXPECT_THROW(StatisticsCsv(file + "/steps.csv"), DataError);
  EXPECT_THROW(StatisticsAverages(file + "/averages.csv", {.image_size = 8}), DataError);
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

TEST(FiniteCheck, LooksWhereAnyOfThemIsToLook) {
  for (const bool is_reversed : {false, true}) {
    SmallTraining training(false);
    FunctionBatches source(small_batch);
    FiniteCheck early({.infinity = false, .last_step = 2}), late({.nan = false, .first_step = 1, .last_step = 4});
    std::vector<std::string> looked_for;
    Hooks hooks;
    hooks.step = [&](const TrainerState& state) {
      const ValueChecks& checks = state.session.value_checks();
      looked_for.push_back(text_of(checks.nan ? "n" : "", checks.infinity ? "i" : ""));
    };
    // Before them: on_step of a check that looks no more has put back what was there.
    std::vector<Callback*> callbacks{&training.rate, &hooks, &early, &late};
    if (is_reversed) std::swap(callbacks[2], callbacks[3]);
    training.trainer.fit(source, {.steps = 7, .callbacks = callbacks});
    EXPECT_THAT(looked_for, testing::ElementsAre("n", "ni", "ni", "i", "i", "", "")) << is_reversed;
    EXPECT_FALSE(training.session.value_checks().any());
  }
}

TEST(FiniteCheck, LooksAtEvaluationsBetweenItsStepsWhenAnotherHasEnded) {
  for (const bool is_reversed : {false, true}) {
    SmallTraining training(false);
    FunctionBatches source(small_batch), validation(small_batch);
    FiniteCheck early({.infinity = false, .last_step = 2}), late({.last_step = 4});
    std::vector<std::string> looked_for;
    Hooks hooks;
    hooks.evaluation = [&](const TrainerState& state, const Logs&) {
      const ValueChecks& checks = state.session.value_checks();
      looked_for.push_back(text_of(checks.nan ? "n" : "", checks.infinity ? "i" : ""));
    };
    std::vector<Callback*> callbacks{&training.rate, &hooks, &early, &late};
    if (is_reversed) std::swap(callbacks[2], callbacks[3]);
    for (int fit = 0; fit < 2; ++fit) {
      training.trainer.fit(source,
                           {.steps = 7, .validation = &validation, .validate_every_steps = 1, .callbacks = callbacks});
      // Behind step 5 none is between two of its steps.
      const std::vector<std::string> none(7, "");
      EXPECT_EQ(looked_for, fit > 0 ? none : (std::vector<std::string>{"ni", "ni", "ni", "ni", "", "", ""}));
      looked_for.clear();
      EXPECT_FALSE(training.session.value_checks().any());
    }
  }
}

TEST(LoggedNumbers, OfTheNameOfAnEvaluationsGiveWayToIts) {
  SmallTraining training(false);
  FunctionBatches source(small_batch), test(small_batch);
  Hooks hooks;
  hooks.step = [](const TrainerState& state) { state.log("val_loss", -1); };
  const History history =
      training.trainer.fit(source, {.epochs = 2, .validation = &test, .callbacks = {&training.rate, &hooks}});
  EXPECT_THAT(history.of("val_loss"), testing::Each(testing::Gt(0)));
  EXPECT_EQ(history.last_step.at("val_loss"), -1);
}

}  // namespace
}  // namespace sectionflow
