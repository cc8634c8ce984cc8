// The callback of docs/training.md, which reads it here.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iostream>

#include "tests/train/small_training.h"

namespace sectionflow {
namespace {

using testing_support::small_batch;
using testing_support::SmallTraining;

struct Milliseconds : Callback {
  void on_step(const TrainerState& state) override { state.log("milliseconds", 1e3 * state.step_seconds); }
  void on_epoch(const TrainerState& state) override { std::cout << "epoch " << state.epoch << " is over\n"; }
  std::optional<std::vector<std::string>> logged_names() const override { return {{"milliseconds"}}; }
};

TEST(OwnCallback, ThatSaysWhatItLogsHasNamesCheckedBeforeTheFirstStep) {
  SmallTraining training(true);
  FunctionBatches source(small_batch);
  Milliseconds own;
  EarlyStopping mistaken({.monitor = "millisecond"}), right({.monitor = "milliseconds", .patience = 5});
  EXPECT_THROW(training.trainer.fit(source, {.epochs = 1, .callbacks = {&training.rate, &own, &mistaken}}),
               ArgumentError);
  EXPECT_EQ(training.trainer.step(), 0);
  testing::internal::CaptureStdout();
  const History history = training.trainer.fit(source, {.epochs = 1, .callbacks = {&training.rate, &own, &right}});
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "epoch 1 is over\n");
  EXPECT_GT(history.of("milliseconds").at(0), 0);
}

/// Asks for times where nothing is timed.
struct AsksTooLate : Callback {
  void on_step(const TrainerState& state) override {
    EXPECT_THROW(state.trace_step(), ArgumentError);
    ++num_asked;
  }
  void on_evaluation_step(const TrainerState& state) override {
    EXPECT_THROW(state.trace_step(), ArgumentError);
    ++num_asked;
  }
  int num_asked = 0;
};

TEST(OwnCallback, ThatAsksForTimesWhereNoStepBeginsIsRefused) {
  SmallTraining training(true);
  FunctionBatches source(small_batch);
  AsksTooLate own;
  training.trainer.fit(source, {.steps = 2, .callbacks = {&training.rate, &own}});
  training.trainer.evaluate(source, {.callbacks = {&own}});
  EXPECT_GT(own.num_asked, 2);
}

}  // namespace
}  // namespace sectionflow
