// SIGINT and SIGTERM: the step is finished, the training ends in order, and goes on later with the same bits.

#include "train/stop_signals.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <thread>
#include <utility>

#include "tests/support/temporary_folder.h"
#include "tests/train/small_training.h"

namespace sectionflow {
namespace {

using namespace testing_support;

void (*handler_of(int signal))(int) {
  struct sigaction now {};
  sigaction(signal, nullptr, &now);
  return now.sa_handler;
}

void wait_longer_than_one_signal() {
  std::this_thread::sleep_for(std::chrono::milliseconds(80));
}

void note_nothing(int) {}

/// What runs in the background may have been started with SIGINT ignored.
struct StopSignalsTest : testing::Test {
  StopSignalsTest() {
    std::signal(SIGINT, SIG_DFL);
    std::signal(SIGTERM, SIG_DFL);
  }
};
using StopSignalsDeathTest = StopSignalsTest;

TEST_F(StopSignalsTest, AreNotedWhileOneLivesAndHandledAsBeforeAfterwards) {
  const auto before = std::signal(SIGTERM, note_nothing);
  {
    const StopSignals outer;
    EXPECT_EQ(outer.received(), 0);
    {
      const StopSignals inner;
      std::raise(SIGTERM);
      EXPECT_EQ(inner.received(), SIGTERM);
    }
    EXPECT_EQ(outer.received(), SIGTERM);
    EXPECT_NE(handler_of(SIGTERM), note_nothing);
  }
  EXPECT_EQ(handler_of(SIGTERM), note_nothing);
  EXPECT_EQ(handler_of(SIGINT), SIG_DFL);
  EXPECT_EQ(StopSignals().received(), 0);
  std::signal(SIGTERM, before);
}

TEST_F(StopSignalsTest, ThatAreIgnoredStayIgnored) {
  std::signal(SIGINT, SIG_IGN);
  {
    const StopSignals signals;
    std::raise(SIGINT);
    EXPECT_EQ(signals.received(), 0);
  }
  std::signal(SIGINT, SIG_DFL);
}

TEST_F(StopSignalsTest, OneThatComesTwiceAtOnceIsOne) {
  const StopSignals signals;
  std::raise(SIGINT);
  std::raise(SIGTERM);
  std::raise(SIGINT);
  EXPECT_EQ(signals.received(), SIGINT);
}

TEST_F(StopSignalsDeathTest, ASecondOneEndsTheProcessAtOnce) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto twice = [](int first, int second) {
    const StopSignals signals;
    std::raise(first);
    wait_longer_than_one_signal();
    std::raise(second);
    std::_Exit(0);
  };
  EXPECT_EXIT(twice(SIGINT, SIGINT), testing::KilledBySignal(SIGINT), "");
  EXPECT_EXIT(twice(SIGINT, SIGTERM), testing::KilledBySignal(SIGTERM), "");
}

TEST_F(StopSignalsTest, EndAFitBehindItsStepAndItGoesOnWithTheSameBits) {
  SmallModel whole(true);
  Session undisturbed(whole.graph, small_session());
  undisturbed.initialize();
  Trainer trainer = whole.trainer(undisturbed);
  LearningRate rate(whole.rate, constant_rate(0.01));
  FunctionBatches source(small_batch);
  trainer.fit(source, {.max_epochs = 3, .callbacks = {&rate}});

  const TemporaryFolder folder;
  const std::string path = (folder.path() / "variables").string();
  std::string position;
  {
    SmallModel model(true);
    Session session(model.graph, small_session());
    session.initialize();
    Trainer stopped = model.trainer(session);
    LearningRate same_rate(model.rate, constant_rate(0.01));
    FunctionBatches same_source(small_batch);
    Hooks hooks;
    hooks.step_begin = [](const TrainerState& state, Feeds&) {
      if (state.step == 4) std::raise(SIGINT);
    };
    hooks.end = [&](const TrainerState& state) {
      EXPECT_EQ(state.reason, StopReason::signal);
      EXPECT_EQ(state.step, 5);
      save_variables(state.session, path);
      position = state.position();
    };
    const History history =
        stopped.fit(same_source, {.max_epochs = 3, .callbacks = {&same_rate, &hooks}, .handle_signals = true});
    EXPECT_EQ(history.steps, 5);
    EXPECT_EQ(history.signal, SIGINT);
    EXPECT_EQ(history.exit_code(), 130);
    EXPECT_EQ(history.why, "got SIGINT; ended behind step 5; no CheckpointCallback has saved it");
    EXPECT_EQ(handler_of(SIGINT), SIG_DFL);
  }
  SmallModel model(true);
  Session session(model.graph, small_session());
  session.initialize();
  load_variables(session, path);
  Trainer resumed = model.trainer(session);
  resumed.restore(position);
  LearningRate same_rate(model.rate, constant_rate(0.01));
  FunctionBatches same_source(small_batch);
  EXPECT_EQ(resumed.fit(same_source, {.max_epochs = 3, .callbacks = {&same_rate}}).steps, 4);
  EXPECT_EQ(difference_of(variables_of(undisturbed), variables_of(session)), "");
}

/// What a training by steps and epochs has come to.
struct Evaluated {
  std::map<std::string, HostTensor> variables;
  Logs evaluation, last_epoch;
};

/// Trains two epochs with an evaluation of three batches each and, `by_steps`, behind every second step. A signal comes
/// in batch `batch` of evaluation `evaluation`, and the training goes on in another session; 0: none does.
Evaluated trained_with_a_signal(bool by_steps, int evaluation, int batch) {
  const FitOptions wanted{.max_epochs = 2, .validate_every_steps = by_steps ? 2 : 0};
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "variables").string();
  std::string position;
  int batches = 0;
  for (int run = 0;; ++run) {
    SmallTraining small(true);
    FunctionBatches source(small_batch), validation(small_batch);
    if (run == 1) {
      load_variables(small.session, path);
      small.trainer.restore(position);
    }
    Hooks hooks;
    int evaluations = 0;
    hooks.evaluation_step = [&](const TrainerState& state) {
      evaluations += state.step_in_epoch == 1 ? 1 : 0;
      if (run > 0 || evaluations != evaluation) return;
      ++batches;
      if (state.step_in_epoch == batch) std::raise(SIGTERM);
    };
    hooks.end = [&](const TrainerState& state) {
      save_variables(state.session, path);
      position = state.position();
    };
    FitOptions options = wanted;
    options.validation = &validation;
    options.callbacks = {&small.rate, &hooks};
    options.handle_signals = true;
    const History history = small.trainer.fit(source, options);
    if (run == 0 && evaluation > 0) {
      EXPECT_EQ(batches, batch) << "no batch behind the signal";
      EXPECT_EQ(history.reason, StopReason::signal);
      EXPECT_EQ(history.exit_code(), 128 + SIGTERM);
      EXPECT_EQ(source.position(), text_of(small.trainer.epoch(), " ", history.steps - 3 * small.trainer.epoch()));
      continue;
    }
    return {variables_of(small.session), history.evaluation, history.epochs.back().logs};
  }
}

TEST_F(StopSignalsTest, EndAnEvaluationBetweenTwoBatchesAndItIsMadeAgainWithTheSameBits) {
  for (const bool by_steps : {false, true}) {
    const Evaluated whole = trained_with_a_signal(by_steps, 0, 0);
    for (const int evaluation : {1, 2}) {
      for (const int batch : {1, 2}) {
        SCOPED_TRACE(text_of(by_steps, " ", evaluation, " ", batch));
        const Evaluated resumed = trained_with_a_signal(by_steps, evaluation, batch);
        EXPECT_EQ(difference_of(whole.variables, resumed.variables), "");
        EXPECT_EQ(whole.evaluation, resumed.evaluation);
        EXPECT_EQ(whole.last_epoch, resumed.last_epoch);
      }
    }
  }
}

TEST_F(StopSignalsTest, OfAnEvaluationLetTheSameTrainerGoOnWithTheEndOfItsEpoch) {
  SmallTraining small(true);
  FunctionBatches source(small_batch), validation(small_batch);
  Hooks hooks;
  bool has_come = false;
  hooks.evaluation_step = [&](const TrainerState&) {
    if (!std::exchange(has_come, true)) std::raise(SIGINT);
  };
  const FitOptions options{
      .max_epochs = 2, .validation = &validation, .callbacks = {&small.rate, &hooks}, .handle_signals = true};
  const History first = small.trainer.fit(source, options);
  EXPECT_EQ(first.steps, 3);
  EXPECT_TRUE(first.epochs.empty());
  EXPECT_EQ(first.evaluated_step, -1);
  const History second = small.trainer.fit(source, options);
  EXPECT_EQ(second.steps, 3);
  ASSERT_EQ(second.epochs.size(), 2U);
  EXPECT_EQ(second.epochs.front().step, 3);
  EXPECT_TRUE(second.epochs.front().logs.contains("val_loss"));
}

/// Trains four steps of which the last is to be evaluated, and is broken off: by a signal in that evaluation, or, as a
/// kill leaves it, before. What comes then is in another session.
History evaluated_at_end(bool by_signal) {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "variables").string();
  FunctionBatches source(small_batch), validation(small_batch);
  std::string position;
  const auto options = [&](SmallTraining& small, Hooks& hooks) {
    return FitOptions{.max_steps = 4,
                      .validation = &validation,
                      .validate_every = 0,
                      .validate_at_end = true,
                      .callbacks = {&small.rate, &hooks},
                      .handle_signals = true};
  };
  {
    SmallTraining small(true);
    Hooks hooks;
    hooks.step = [&](const TrainerState& state) {
      if (state.step == 4 && !by_signal) position = state.position();
    };
    hooks.evaluation_step = [&](const TrainerState& state) {
      if (by_signal && state.step_in_epoch == 2) std::raise(SIGTERM);
    };
    hooks.end = [&](const TrainerState& state) {
      save_variables(state.session, path);
      EXPECT_EQ(state.reason, by_signal ? StopReason::signal : StopReason::completed);
      if (by_signal) position = state.position();
    };
    const History history = small.trainer.fit(source, options(small, hooks));
    if (by_signal) {
      EXPECT_EQ(history.evaluated_step, -1);
      EXPECT_EQ(history.exit_code(), 128 + SIGTERM);
      EXPECT_EQ(
          history.why,
          "completed 4 steps; SIGTERM came in the evaluation at the end, which is made where the training goes on; "
          "ended behind step 4; no CheckpointCallback has saved it");
    }
  }
  SmallTraining small(true);
  load_variables(small.session, path);
  small.trainer.restore(position);
  Hooks none;
  FunctionBatches same(small_batch);
  History history = small.trainer.fit(same, options(small, none));
  EXPECT_EQ(small.trainer.fit(same, options(small, none)).evaluated_step, -1) << "once is enough";
  return history;
}

TEST_F(StopSignalsTest, OfTheEvaluationAtTheEndHaveItMadeWhereTheTrainingGoesOn) {
  SmallTraining whole(true);
  FunctionBatches source(small_batch), validation(small_batch);
  whole.trainer.fit(source, {.max_steps = 4, .callbacks = {&whole.rate}});
  const Logs wanted = whole.trainer.evaluate(validation);
  for (const bool by_signal : {true, false}) {
    const History history = evaluated_at_end(by_signal);
    EXPECT_EQ(history.steps, 0);
    EXPECT_EQ(history.evaluated_step, 4);
    EXPECT_EQ(history.evaluation, wanted);
    EXPECT_EQ(history.reason, StopReason::completed);
  }
}

TEST_F(StopSignalsTest, WithTheLastStepOfAllLetTheTrainingBeComplete) {
  SmallTraining small(true);
  FunctionBatches source(small_batch);
  Hooks hooks;
  hooks.step = [](const TrainerState& state) {
    if (state.step == 4) std::raise(SIGINT);
  };
  const History history =
      small.trainer.fit(source, {.max_steps = 4, .callbacks = {&small.rate, &hooks}, .handle_signals = true});
  EXPECT_EQ(history.reason, StopReason::completed);
  EXPECT_EQ(history.exit_code(), 130);
}

TEST_F(StopSignalsTest, OfTrainAndEvaluateAreFollowedByNoEvaluation) {
  SmallTraining small(true);
  FunctionBatches source(small_batch), validation(small_batch);
  Hooks hooks;
  hooks.step = [](const TrainerState& state) {
    if (state.step == 2) std::raise(SIGTERM);
  };
  int evaluated = 0;
  hooks.evaluation_step = [&](const TrainerState&) { ++evaluated; };
  const auto done = train_and_evaluate(
      small.trainer, {.source = &source, .max_steps = 9, .callbacks = {&small.rate, &hooks}, .handle_signals = true},
      {.source = &validation, .every_steps = 100});
  EXPECT_EQ(done.history.signal, SIGTERM);
  EXPECT_EQ(evaluated, 0);
  EXPECT_TRUE(done.results.empty());
}

TEST_F(StopSignalsTest, OfAFitThatThrowsAreHandledAsBeforeToo) {
  SmallModel model(true);
  Session session(model.graph, small_session());
  Trainer trainer = model.trainer(session);
  FunctionBatches source(small_batch);
  EXPECT_THROW(trainer.fit(source, {.steps = 1, .handle_signals = true}), Error);
  EXPECT_EQ(handler_of(SIGINT), SIG_DFL);
  EXPECT_EQ(handler_of(SIGTERM), SIG_DFL);
}

TEST(StopSignals, AtAFirstStepLeaveWhatTheFolderLacksToBeSaved) {
  const TemporaryFolder folder;
  const std::string run = (folder.path() / "run").string();
  SmallTraining small(true);
  FunctionBatches source(small_batch);
  Checkpoints checkpoints(run);
  CheckpointCallback saving(checkpoints);
  Hooks interrupt;
  interrupt.begin = [](const TrainerState&) { std::raise(SIGTERM); };
  const auto why = [&] {
    return small.trainer
        .fit(source, {.max_steps = 9, .callbacks = {&small.rate, &interrupt, &saving}, .handle_signals = true})
        .why;
  };
  EXPECT_EQ(why(), "got SIGTERM; ended behind step 0; nothing is trained yet");
  EXPECT_TRUE(checkpoints.list().empty());
  small.trainer.fit(source, {.max_steps = 3, .callbacks = {&small.rate}});
  EXPECT_EQ(why(), text_of("got SIGTERM; ended behind step 3; '", run, "' has a checkpoint of it"));
  ASSERT_EQ(checkpoints.list().size(), 1U);
  EXPECT_EQ(checkpoints.list().front().step, 3);
}

}  // namespace
}  // namespace sectionflow
