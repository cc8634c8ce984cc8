// Which checkpoints of a folder are a training's own, and which state of it they have.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/support/temporary_folder.h"
#include "tests/train/small_training.h"
#include "train/averaged_weights.h"

namespace sectionflow {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using namespace testing_support;

struct SavedMoments : testing::Test {
  /// Up to so many steps, saved at the end.
  History fit_saved(SmallTraining& training, std::int64_t steps, CheckpointCallbackOptions options = {}) {
    Checkpoints checkpoints(run);
    CheckpointCallback saving(checkpoints, options);
    return training.trainer.fit(source, {.max_steps = steps, .callbacks = {&training.rate, &saving}});
  }
  /// What the newest checkpoint has of the first variable, as a training that goes on finds it.
  HostTensor saved_variable() {
    SmallTraining training(true);
    Checkpoints checkpoints(run);
    EXPECT_TRUE(resume(training.trainer, checkpoints).has_value());
    return training.session.read(training.model.graph.values(kVariables)[0]);
  }

  TemporaryFolder folder;
  const std::string run = (folder.path() / "run").string();
  FunctionBatches source{small_batch};
};

TEST_F(SavedMoments, ATrainingOnItsWayTakesNoFolderOfAnotherAndKeepsItsOwn) {
  SmallTraining first(true), second(true);
  fit_saved(first, 5);
  second.trainer.fit(source, {.steps = 7, .callbacks = {&second.rate}});
  EXPECT_THAT(whole_error_text<ArgumentError>([&] { fit_saved(second, 9); }),
              AllOf(HasSubstr("is at step 7 of its own"), HasSubstr("that of step 3"), HasSubstr("another folder")));
  EXPECT_EQ(second.trainer.step(), 7);
  EXPECT_EQ(Checkpoints(run).list().size(), 2U);
  // Its own folder, by whatever objects; and by one that was restored by hand.
  EXPECT_EQ(fit_saved(first, 8).steps, 3);
  SmallTraining third(true);
  third.trainer.restore(first.trainer.position());
  EXPECT_EQ(fit_saved(third, 9).steps, 1);
}

TEST_F(SavedMoments, WhatWasWrittenBetweenTwoFitsIsSavedWhereNothingIsLeftToTrain) {
  SmallTraining training(true);
  fit_saved(training, 4);
  const Value variable = training.model.graph.values(kVariables)[0];
  HostTensor written = training.session.read(variable);
  for (float& number : written.values<float>()) number = 42;
  training.session.write(variable, written);
  EXPECT_EQ(fit_saved(training, 4).steps, 0);
  EXPECT_TRUE(bitwise_equal(saved_variable(), written));
}

TEST_F(SavedMoments, AResumedTrainingWithNothingLeftIsNotSavedAgain) {
  SmallTraining training(true);
  fit_saved(training, 4);
  SmallTraining again(true);
  Checkpoints checkpoints(run);
  ASSERT_TRUE(resume(again.trainer, checkpoints).has_value());
  const auto time = std::filesystem::last_write_time(checkpoints.list().at(0).path + "/manifest.json");
  CheckpointCallback saving(checkpoints);
  EXPECT_EQ(again.trainer.fit(source, {.max_steps = 4, .callbacks = {&again.rate, &saving}}).steps, 0);
  EXPECT_EQ(std::filesystem::last_write_time(checkpoints.list().at(0).path + "/manifest.json"), time);
}

TEST_F(SavedMoments, AveragesThatStoodInForTheWeightsForAWhileAreNoNewState) {
  Graph graph;
  const Value x = placeholder(graph, "x", {kDynamic, 6});
  const Value label = placeholder(graph, "label", {kDynamic}, Dtype::i32);
  const Value loss = mean(softmax_cross_entropy(dense(x, {.features = 3}), label));
  const Updates updates = training_updates(Sgd{}, loss, {.average = WeightAverageOptions{.decay = 0.5F}});
  Session session(graph, small_session());
  session.initialize();
  Trainer trainer(session, updates.operations, {.loss = loss});
  Checkpoints checkpoints(run, {.keep = 1, .best_metric = "loss"});
  CheckpointCallback saving(checkpoints);
  Hooks hooks;
  hooks.epoch = [&](const TrainerState&) { const AveragedWeights averaged(session, updates.averages); };
  trainer.fit(source, {.epochs = 2, .callbacks = {&saving, &hooks}});
  const CheckpointInfo newest = checkpoints.list().back();
  EXPECT_EQ(newest.step, 6);
  EXPECT_TRUE(newest.metrics.contains("loss")) << "it was saved as the epoch ended, and not again without its numbers";
}

}  // namespace
}  // namespace sectionflow
