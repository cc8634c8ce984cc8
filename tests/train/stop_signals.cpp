// SIGINT and SIGTERM: the step is finished, the training ends in order, and goes on later with the same bits.

#include "train/stop_signals.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <thread>

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
