// Progress: what its line tells of a training, whatever else the training does.

#include "train/progress_callback.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <stdexcept>

#include "base/bytes.h"
#include "tests/train/small_training.h"

namespace sectionflow {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;
using testing_support::Hooks;
using testing_support::Scored;
using testing_support::small_batch;

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
  hooks.step = [&](const TrainerState& state) {
    trained = std::max(trained, state.session.statistics().planned_peak_bytes);
  };
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
  // The last batch is smaller.
  EXPECT_THAT(stream.str().substr(stream.str().rfind("step 3")), HasSubstr("peak " + bytes_text(trained)));
  EXPECT_THAT(stream.str(),
              AllOf(HasSubstr("peak " + bytes_text(trained)),
                    testing::Not(HasSubstr("peak " + bytes_text(scored.session.statistics().planned_peak_bytes)))));
}

TEST(ProgressCallback, PlanningIsALineAndNoPartOfSpeedAndRemainingTime) {
  Scored scored;
  std::ostringstream stream;
  double now = 0;
  Progress progress(
      {.stream = &stream, .is_terminal = false, .min_interval_seconds = 0.0, .now_seconds = [&] { return now; }});
  Hooks slow;
  // The third batch is of another size, and planned as well.
  slow.step_begin = [&](const TrainerState& state, Feeds&) { now += state.step == 0 ? 100 : state.step == 2 ? 50 : 2; };
  scored.trainer->fit(scored.source, {.max_steps = 9, .callbacks = {&scored.rate, &scored.feeder, &progress, &slow}});
  const std::string text = stream.str();
  EXPECT_THAT(text, AllOf(HasSubstr("planning, and step 1 by the new plan: 100.0 s\n"),
                          HasSubstr("planning, and step 3 by the new plan: 50.0 s\n")));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("step 2/9")) {
      EXPECT_THAT(line, AllOf(HasSubstr(" 4.0 examples/s"), HasSubstr("ETA 0:14")));
    }
    if (line.starts_with("step 5/9")) {
      EXPECT_THAT(line, AllOf(HasSubstr(" 4.0 examples/s"), HasSubstr("ETA 0:08")));
    }
  }
  EXPECT_THAT(text, AllOf(HasSubstr("step 2/9"), HasSubstr("step 5/9")));
}

TEST(ProgressCallback, ShowsWhatOthersLogInTheSameStepWhereverItStands) {
  Scored scored;
  std::ostringstream stream;
  Progress progress({.stream = &stream, .is_terminal = false, .min_interval_seconds = 0.0});
  Hooks logs;
  logs.step = [](const TrainerState& state) { state.log("counted", static_cast<double>(state.step)); };
  logs.epoch = [](const TrainerState& state) { state.log("ended", static_cast<double>(10 * state.epoch)); };
  scored.trainer->fit(scored.source, {.epochs = 2, .callbacks = {&progress, &scored.rate, &scored.feeder, &logs}});
  std::istringstream lines(stream.str());
  std::int64_t num_steps = 0, num_epochs = 0;
  for (std::string line; std::getline(lines, line);) {
    for (std::int64_t step = 1; step <= 3; ++step) {
      const bool is_first = line.starts_with(text_of("epoch 1/2  step ", step, "  loss"));
      if (!is_first) continue;
      EXPECT_THAT(line, HasSubstr(text_of("counted ", step, ".0000")));
      ++num_steps;
    }
    for (std::int64_t epoch = 1; epoch <= 2; ++epoch) {
      if (!line.starts_with(text_of("epoch ", epoch, ":"))) continue;
      EXPECT_THAT(line,
                  AllOf(HasSubstr(text_of("counted ", 3 * epoch, " ")), HasSubstr(text_of("ended ", 10 * epoch))));
      ++num_epochs;
    }
  }
  EXPECT_GE(num_steps, 3) << stream.str();
  EXPECT_EQ(num_epochs, 2);
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

}  // namespace
}  // namespace sectionflow
