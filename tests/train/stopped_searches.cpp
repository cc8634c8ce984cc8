// A search for a plan that is stopped behind the first step ends the training as a signal does.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "tests/support/temporary_folder.h"
#include "tests/train/small_training.h"

namespace sectionflow {
namespace {

using namespace testing_support;

/// Throws as a search for a plan does that is stopped.
[[noreturn]] void stop_planning() {
  throw Error(error_text_of("planning was stopped"), ErrorCode::planning_stopped, "StoppedError");
}

TEST(StoppedSearches, ForALaterPlanLeaveACheckpointBehindTheLastStep) {
  // What runs in the background may have been started with SIGINT ignored.
  std::signal(SIGINT, SIG_DFL);
  for (const bool by_signal : {true, false}) {
    SCOPED_TRACE(by_signal);
    const TemporaryFolder folder;
    SmallTraining small(true);
    FunctionBatches source(small_batch);
    Checkpoints checkpoints((folder.path() / "run").string());
    CheckpointCallback saving(checkpoints);
    Hooks hooks;
    hooks.step_begin = [&](const TrainerState& state, Feeds&) {
      if (state.step < 2) return;
      if (by_signal) std::raise(SIGINT);
      stop_planning();
    };
    const FitOptions options{.max_epochs = 1, .callbacks = {&small.rate, &hooks, &saving}, .handle_signals = true};
    const History history = small.trainer.fit(source, options);
    EXPECT_EQ(history.steps, 2);
    EXPECT_EQ(history.reason, by_signal ? StopReason::signal : StopReason::callback);
    EXPECT_EQ(history.exit_code(), by_signal ? 128 + SIGINT : 0);
    ASSERT_EQ(checkpoints.list().size(), 1U);
    EXPECT_EQ(checkpoints.list().front().step, 2);
    // The batch that was not trained comes again.
    hooks.step_begin = {};
    EXPECT_EQ(small.trainer.fit(source, options).steps, 1);
    SmallTraining whole(true);
    FunctionBatches same(small_batch);
    whole.trainer.fit(same, {.max_epochs = 1, .callbacks = {&whole.rate}});
    EXPECT_EQ(difference_of(variables_of(whole.session), variables_of(small.session)), "");
  }
}

TEST(StoppedSearches, ForTheFirstPlanAreThatError) {
  SmallTraining small(true);
  FunctionBatches source(small_batch);
  Hooks hooks;
  hooks.step_begin = [](const TrainerState&, Feeds&) { stop_planning(); };
  hooks.end = [](const TrainerState& state) { EXPECT_EQ(state.reason, StopReason::error); };
  EXPECT_THROW(small.trainer.fit(source, {.max_epochs = 1, .callbacks = {&small.rate, &hooks}}), Error);
}

TEST(StoppedSearches, ForThePlanOfAnEvaluationHaveItMadeWhereTheTrainingGoesOn) {
  SmallTraining small(true);
  FunctionBatches source(small_batch), validation(small_batch);
  bool is_stopped = true;
  Hooks hooks;
  hooks.evaluation_step = [&](const TrainerState&) {
    if (is_stopped) stop_planning();
  };
  const FitOptions options{.max_steps = 4,
                           .validation = &validation,
                           .validate_every = 0,
                           .validate_at_end = true,
                           .callbacks = {&small.rate, &hooks}};
  const History stopped = small.trainer.fit(source, options);
  EXPECT_EQ(stopped.steps, 4);
  EXPECT_EQ(stopped.reason, StopReason::callback);
  EXPECT_EQ(
      stopped.why,
      "completed 4 steps; a stop of planning (SF-E103) came in the evaluation at the end, which is made where the "
      "training goes on");
  EXPECT_EQ(stopped.evaluated_step, -1);
  is_stopped = false;
  const History gone_on = small.trainer.fit(source, options);
  EXPECT_EQ(gone_on.steps, 0);
  EXPECT_EQ(gone_on.evaluated_step, 4);
}

}  // namespace
}  // namespace sectionflow
