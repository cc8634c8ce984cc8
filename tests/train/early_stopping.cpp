// EarlyStopping: when it ends a training, what it sets again, and that it goes on as if nothing had happened.

#include "train/early_stopping.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <limits>
#include <stdexcept>
#include <utility>

#include "tests/support/log_lines.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/small_training.h"

namespace sectionflow {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
using namespace testing_support;

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
  EarlyStopping target({.monitor = "score", .higher_is_better = true, .has_target = true, .target = 3});
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

TEST(EarlyStopping, WhatWasWatchedForAnotherNumberIsForgotten) {
  Scored first;
  first.scores = {2};
  EarlyStopping stopping({.monitor = "score", .patience = 1});
  PlateauLearningRate plateau(first.model.rate, {.rate = 0.01, .monitor = "score", .factor = 0.5});
  ASSERT_EQ(first.fit({&stopping}, 100).reason, StopReason::callback);
  const std::string of_early = stopping.save();
  for (const EarlyStoppingOptions& options :
       {EarlyStoppingOptions{.monitor = "loss", .patience = 1},
        EarlyStoppingOptions{.monitor = "score", .higher_is_better = true, .patience = 1}}) {
    Scored next;
    next.scores = {1};
    EarlyStopping other(options);
    next.trainer->restore(first.trainer->position());
    const LogLines log;
    const History history = next.fit({&other}, 1);
    EXPECT_EQ(history.steps, 3) << "the other number has decided nothing";
    EXPECT_EQ(other.best_epoch(), 4);
    EXPECT_THAT(log.lines,
                Contains(AllOf(HasSubstr("EarlyStopping"), HasSubstr("the smallest 'score'"),
                               HasSubstr(options.monitor == "loss" ? "the smallest 'loss'" : "the largest 'score'"))));
  }
  // What an earlier version has saved tells no name, and is taken.
  EarlyStopping earlier({.monitor = "loss"});
  earlier.restore(of_early.substr(0, of_early.find('|')));
  EXPECT_EQ(earlier.best(), 2);
  EXPECT_THROW(earlier.restore("|"), DataError);
  // The rate of a plateau stays, and what it counts is forgotten.
  const LogLines log;
  PlateauLearningRate of_loss(first.model.rate, {.rate = 1, .monitor = "loss"});
  of_loss.restore(plateau.save());
  EXPECT_THAT(log.lines, Contains(HasSubstr("PlateauLearningRate: what the training goes on from")));
  EXPECT_EQ(of_loss.save().substr(0, 16), plateau.save().substr(0, 16));
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

/// Variables at the ends of epochs, from 1, and where the training stood.
struct EpochNotes : Hooks {
  EpochNotes() {
    epoch = [this](const TrainerState& state) {
      variables.push_back(variables_of(state.session));
      positions.push_back(state.position());
    };
  }
  std::vector<std::map<std::string, HostTensor>> variables = std::vector<std::map<std::string, HostTensor>>(1);
  std::vector<std::string> positions = std::vector<std::string>(1);
};

const EarlyStoppingOptions kRestoring = {.monitor = "score", .patience = 1, .restore_best = true};

TEST(EarlyStopping, ASignalInTheEpochThatDecidesLosesNoBestVariables) {
  std::signal(SIGTERM, SIG_DFL);
  Scored scored;
  scored.scores = {5, 3, 4, 4};
  EarlyStopping stopping(kRestoring);
  EpochNotes notes;
  Hooks interrupt;
  interrupt.epoch = [](const TrainerState& state) {
    if (state.epoch == 4) std::raise(SIGTERM);
  };
  const History history =
      scored.fit({.epochs = 9, .callbacks = {&stopping, &notes, &interrupt}, .handle_signals = true});
  EXPECT_EQ(history.reason, StopReason::callback);
  EXPECT_EQ(history.exit_code(), 128 + SIGTERM);
  EXPECT_EQ(difference_of(variables_of(scored.session), notes.variables[2]), "");
  // What goes on from here has them, and says nothing of lost ones.
  Scored next;
  EarlyStopping again(kRestoring);
  next.trainer->restore(scored.trainer->position());
  const LogLines log;
  EXPECT_THAT(next.fit({&again}, 9).why, AllOf(StartsWith("nothing is trained"), Not(HasSubstr("not those"))));
  EXPECT_THAT(log.lines, Not(Contains(HasSubstr("EarlyStopping"))));
}

TEST(EarlyStopping, AKillBehindTheDecisionIsToldWhereTheBestVariablesAreNot) {
  Scored scored;
  scored.scores = {5, 3, 4, 4};
  EarlyStopping stopping(kRestoring);
  EpochNotes notes;
  scored.fit({&stopping, &notes}, 9);
  Scored next;
  EarlyStopping again(kRestoring);
  next.trainer->restore(notes.positions[4]);
  const LogLines log;
  const History history = next.fit({&again}, 9);
  EXPECT_EQ(history.steps, 0);
  EXPECT_THAT(history.why, AllOf(StartsWith("nothing is trained"), HasSubstr("has the variables of step 12, not those"),
                                 HasSubstr("of epoch 2")));
  EXPECT_THAT(log.lines, Contains(AllOf(HasSubstr("not those of the best, 'score' 3 of epoch 2"),
                                        HasSubstr("checkpoint 'step-6'"))));
}

TEST(EarlyStopping, WhereTheBestVariablesAreInTheSessionTheyAreCopiedAgain) {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "variables").string();
  // The training is complete with its best variables; or it was saved at its best epoch.
  for (const bool is_complete : {true, false}) {
    std::string position;
    std::map<std::string, HostTensor> best;
    {
      Scored scored;
      scored.scores = {5, 3, 4};
      EarlyStopping stopping(kRestoring);
      EpochNotes notes;
      Hooks saves;
      saves.epoch = [&](const TrainerState& state) {
        if (!is_complete && state.epoch == 2) save_variables(state.session, path);
      };
      saves.end = [&](const TrainerState& state) {
        if (is_complete) save_variables(state.session, path);
      };
      scored.fit({.max_epochs = 3, .callbacks = {&stopping, &notes, &saves}});
      position = is_complete ? scored.trainer->position() : notes.positions[2];
      best = std::move(notes.variables[2]);
    }
    Scored next;
    next.scores = {7};
    load_variables(next.session, path);
    next.trainer->restore(position);
    EarlyStopping again(kRestoring);
    const LogLines log;
    next.fit({.max_epochs = 4, .callbacks = {&again}});
    EXPECT_EQ(difference_of(variables_of(next.session), best), "");
    EXPECT_THAT(log.lines, Not(Contains(HasSubstr("EarlyStopping"))));
  }
}

TEST(EarlyStopping, EndsAResumedTrainingWhereTheUndisturbedOneEnds) {
  // By epochs, of which every second is evaluated: the fourth is worse, and only watched; the sixth is the best.
  const std::vector<float> values = {0, 5, 5, 5, 6, 6, 1, 1, 0, 0};
  const auto epochs_of = [&](const std::string& position, EpochNotes& notes) {
    SmallModel model(false);
    Session session(model.graph, small_session());
    session.initialize();
    Trainer trainer(session, model.training, {.loss = model.loss, .metrics = {{"m", mean(model.x)}}});
    float value = 0;
    FunctionBatches source(small_batch), validation([&](std::int64_t, std::int64_t batch) -> std::optional<Example> {
      if (batch > 0) return std::nullopt;
      auto example = small_batch(0, 0);
      for (float& x : example->at("x").values<float>()) x = value;
      return example;
    });
    Hooks sets;
    sets.step = [&](const TrainerState& state) { value = values.at(static_cast<std::size_t>(state.epoch)); };
    LearningRate rate(model.rate, constant_rate(0.01));
    EarlyStopping stopping({.monitor = "val_m", .start_epoch = 4});
    if (!position.empty()) trainer.restore(position);
    trainer.fit(source, {.max_epochs = 8,
                         .validation = &validation,
                         .validate_every = 2,
                         .callbacks = {&rate, &sets, &stopping, &notes}});
    return trainer.epoch();
  };
  EpochNotes undisturbed;
  ASSERT_EQ(epochs_of("", undisturbed), 8);
  for (std::size_t epoch = 1; epoch <= 8; ++epoch) {
    EpochNotes notes;
    EXPECT_EQ(epochs_of(undisturbed.positions[epoch], notes), 8) << "from epoch " << epoch;
  }
}

TEST(EarlyStopping, WhatReachesItsTargetByLittleIsEndedByEveryStart) {
  const EarlyStoppingOptions options = {
      .monitor = "score", .min_delta = 1, .has_target = true, .target = 4.95, .restore_best = true};
  Scored first;
  first.scores = {5, 4.9, 4.8};
  EarlyStopping stopping(options);
  EpochNotes notes;
  EXPECT_EQ(first.fit({&stopping, &notes}, 9).steps, 6);
  EXPECT_EQ(difference_of(variables_of(first.session), notes.variables[2]), "") << "which is good enough";
  Scored next;
  EarlyStopping again(options);
  next.trainer->restore(first.trainer->position());
  EXPECT_EQ(next.fit({&again}, 9).steps, 0);
}

TEST(EarlyStopping, AFitBehindAnErrorGoesOnWithItsCountsAndItsCopy) {
  for (const std::int64_t failing : {3, 4}) {
    Scored scored;
    scored.scores = {5, 3, 4, 4, 4, 4, 4, 4};
    EarlyStopping stopping(kRestoring);
    EpochNotes notes;
    Hooks fails;
    bool is_armed = true;
    fails.epoch = [&](const TrainerState& state) {
      if (state.epoch == failing && std::exchange(is_armed, false)) throw std::runtime_error("planted");
    };
    EXPECT_THROW(scored.fit({&stopping, &notes, &fails}, 100), std::runtime_error);
    const LogLines log;
    const History history = scored.fit({&stopping, &notes, &fails}, 100);
    EXPECT_EQ(history.reason, StopReason::callback);
    EXPECT_EQ(scored.trainer->epoch(), 4) << failing;
    EXPECT_EQ(difference_of(variables_of(scored.session), notes.variables[2]), "");
    EXPECT_THAT(log.lines, Not(Contains(HasSubstr("EarlyStopping"))));
  }
}

TEST(EarlyStopping, FitsGoOnOneBehindTheOtherUntilItHasEndedOneAndThenBeginAnew) {
  Scored scored;
  scored.scores = {5, 5, 5, 5, 5, 5, 5, 5};
  EarlyStopping stopping({.monitor = "score", .patience = 1});
  EXPECT_EQ(scored.fit({&stopping}, 1).reason, StopReason::completed);
  EXPECT_EQ(scored.fit({&stopping}, 1).reason, StopReason::completed);
  EXPECT_EQ(scored.fit({&stopping}, 1).reason, StopReason::callback);
  EXPECT_EQ(scored.fit({&stopping}, 100).epochs.size(), 3U);
  Scored other;
  other.scores = {7};
  EXPECT_EQ(other.fit({&stopping}, 100).epochs.size(), 3U) << "another training";
}

TEST(EarlyStopping, PositionsOfEarlierVersionsAreRead) {
  EarlyStopping stopping({.monitor = "score"});
  stopping.restore(stopping.save().substr(0, 48));
  EXPECT_EQ(stopping.best_epoch(), 0);
  EXPECT_THROW(stopping.restore(stopping.save().substr(0, 64)), DataError);
}

}  // namespace
}  // namespace sectionflow
