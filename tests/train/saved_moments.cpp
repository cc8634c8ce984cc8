// Which checkpoints of a folder are a training's own, and which state of it they have.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/log_lines.h"
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

TEST_F(SavedMoments, AFolderIsTheSameHoweverItIsSpeltAndWhereverItIsMoved) {
  SmallTraining training(true);
  const auto fit_into = [&](const std::string& path, std::int64_t steps) {
    Checkpoints checkpoints(path);
    CheckpointCallback saving(checkpoints);
    return training.trainer.fit(source, {.max_steps = steps, .callbacks = {&training.rate, &saving}}).steps;
  };
  EXPECT_EQ(fit_into(run, 4), 4);
  EXPECT_EQ(fit_into(run + "/", 5), 1);
  EXPECT_EQ(fit_into((folder.path() / "." / "run").string(), 6), 1);
  std::filesystem::rename(run, run + "2");
  EXPECT_EQ(fit_into(run + "2", 7), 1);
}

TEST_F(SavedMoments, WhatTheSameCheckpointsHaveSavedByHandIsItsOwn) {
  SmallTraining training(true);
  training.trainer.fit(source, {.steps = 3, .callbacks = {&training.rate}});
  Checkpoints checkpoints(run);
  checkpoints.save(training.session, {.step = 3, .data_position = training.trainer.position()});
  CheckpointCallback saving(checkpoints);
  EXPECT_EQ(training.trainer.fit(source, {.steps = 3, .callbacks = {&training.rate, &saving}}).steps, 3);
}

TEST_F(SavedMoments, AResumedTrainingTakesNoOtherFolderThanItsOwnOrAnEmptyOne) {
  SmallTraining first(true), second(true), third(true);
  fit_saved(first, 5);
  const auto fit_into = [&](SmallTraining& training, const char* name, std::int64_t steps) {
    Checkpoints checkpoints((folder.path() / name).string());
    CheckpointCallback saving(checkpoints);
    return training.trainer.fit(source, {.max_steps = steps, .callbacks = {&training.rate, &saving}}).steps;
  };
  EXPECT_EQ(fit_into(second, "others", 5), 5);
  Checkpoints own(run);
  ASSERT_TRUE(resume(third.trainer, own).has_value());
  for (const std::int64_t steps : {5, 6}) EXPECT_THROW(fit_into(third, "others", steps), ArgumentError);
  EXPECT_EQ(fit_into(third, "empty", 6), 1);
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

TEST_F(SavedMoments, WhatCyclesByHandHaveTrainedBetweenTwoFitsIsSavedToo) {
  SmallTraining training(true);
  fit_saved(training, 4);
  const Example batch = *small_batch(9, 0);
  (void)training.model.manager->run_full_cycle(
      training.session, {training.model.loss},
      {{training.model.x, batch.at("x")}, {training.model.label, batch.at("label")}, {training.model.rate, 0.1F}});
  const HostTensor trained = training.session.read(training.model.graph.values(kVariables)[0]);
  EXPECT_FALSE(bitwise_equal(saved_variable(), trained));
  EXPECT_EQ(fit_saved(training, 4).steps, 0);
  EXPECT_TRUE(bitwise_equal(saved_variable(), trained));
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

TEST_F(SavedMoments, AnEvaluationBehindTheLastStepIsSavedBesideTheNumbersThatAreThere) {
  SmallTraining training(true);
  FunctionBatches test(small_batch);
  Checkpoints checkpoints(run, {.keep = 1, .best_metric = "loss"});
  CheckpointCallback saving(checkpoints);
  const std::vector<Callback*> callbacks = {&training.rate, &saving};
  training.trainer.fit(source, {.max_epochs = 2, .callbacks = callbacks});
  const Logs before = checkpoints.list().back().metrics;
  ASSERT_TRUE(before.contains("loss"));
  EXPECT_EQ(training.trainer
                .fit(source, {.max_epochs = 2, .validation = &test, .validate_at_end = true, .callbacks = callbacks})
                .steps,
            0);
  const CheckpointInfo behind = checkpoints.list().back();
  EXPECT_EQ(behind.step, 6);
  EXPECT_EQ(behind.metrics.at("loss"), before.at("loss"));
  EXPECT_TRUE(behind.metrics.contains("val_loss"));
}

TEST_F(SavedMoments, AnEvaluationAtTheEndAmidAnEpochIsAmongTheNumbers) {
  SmallTraining training(true);
  FunctionBatches test(small_batch);
  Checkpoints checkpoints(run, {.best_metric = "val_loss"});
  CheckpointCallback saving(checkpoints);
  training.trainer.fit(
      source, {.steps = 4, .validation = &test, .validate_at_end = true, .callbacks = {&training.rate, &saving}});
  EXPECT_TRUE(checkpoints.list().back().metrics.contains("val_loss"));
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

TEST_F(SavedMoments, WhatARunByHandHasAssignedIsSavedToo) {
  SmallTraining training(true);
  const Value variable = training.model.graph.values(kTrainableVariables)[0];
  const Operation tripled = assign(variable, variable * 3.0F);
  fit_saved(training, 4);
  training.session.run(std::vector<Value>{}, {}, {.targets = {tripled}});
  EXPECT_EQ(fit_saved(training, 4).steps, 0);
  SmallTraining again(true);
  Checkpoints checkpoints(run);
  ASSERT_TRUE(resume(again.trainer, checkpoints).has_value());
  EXPECT_EQ(difference_of(variables_of(again.session), variables_of(training.session)), "");
}

TEST_F(SavedMoments, OfAPositionThatWasRestoredByHandNobodyKnowsWhatTheFolderHas) {
  SmallTraining first(true), second(true, 9);
  fit_saved(first, 4);
  second.trainer.restore(first.trainer.position());
  EXPECT_EQ(fit_saved(second, 4).steps, 0);
  EXPECT_TRUE(bitwise_equal(saved_variable(), second.session.read(second.model.graph.values(kVariables)[0])));
}

TEST_F(SavedMoments, TheCheckpointsOfAnotherTrainerAreAnothersThoughTheObjectIsTheSame) {
  SmallTraining first(true), second(true, 9);
  Checkpoints checkpoints(run);
  CheckpointCallback saving(checkpoints);
  first.trainer.fit(source, {.steps = 3, .callbacks = {&first.rate, &saving}});
  second.trainer.fit(source, {.steps = 3, .callbacks = {&second.rate}});
  for (const std::int64_t steps : {3, 4}) {
    EXPECT_THROW(second.trainer.fit(source, {.max_steps = steps, .callbacks = {&second.rate, &saving}}), ArgumentError);
  }
  std::filesystem::rename(run, run + "2");
  EXPECT_EQ(second.trainer.fit(source, {.steps = 1, .callbacks = {&second.rate, &saving}}).steps, 1);
}

TEST_F(SavedMoments, AFolderThatHasTheNumberOfOneThatIsGoneIsNotTakenForIt) {
  SmallTraining first(true), second(true, 9);
  fit_saved(first, 3);
  for (int i = 0; i < 3; ++i) {
    std::filesystem::remove_all(run);
    SmallTraining other(true, 9);
    fit_saved(other, 5);
    EXPECT_THROW(fit_saved(first, 4), ArgumentError);
  }
}

TEST_F(SavedMoments, WhoHasMerelyOpenedAFolderTakesNothingOfWhatAnotherSavesThere) {
  const CheckpointCallbackOptions seldom{.every_steps = 100, .every_epochs = 0, .at_end = false};
  SmallTraining first(true), second(true);
  fit_saved(first, 2, seldom);
  fit_saved(second, 9);
  EXPECT_THAT(whole_error_text<ArgumentError>([&] { fit_saved(first, 3); }),
              AllOf(HasSubstr("is at step 2 of its own"), HasSubstr("another folder")));
  EXPECT_TRUE(bitwise_equal(saved_variable(), second.session.read(second.model.graph.values(kVariables)[0])));
}

TEST_F(SavedMoments, AnEvaluationOfVariablesThatWereWrittenSinceIsNoneOfTheEpochsEnd) {
  SmallTraining training(true);
  FunctionBatches test(small_batch);
  training.trainer.fit(source,
                       {.steps = 3, .validation = &test, .validate_at_end = true, .callbacks = {&training.rate}});
  ASSERT_EQ(training.trainer.epoch(), 0) << "the epoch's end is not known yet";
  for (const Value& variable : training.model.graph.values(kTrainableVariables)) {
    HostTensor scaled = training.session.read(variable);
    for (float& number : scaled.values<float>()) number *= 50;
    training.session.write(variable, scaled);
  }
  const Logs now = training.trainer.evaluate(test);
  const History history =
      training.trainer.fit(source, {.steps = 1, .validation = &test, .callbacks = {&training.rate}});
  ASSERT_FALSE(history.epochs.empty());
  EXPECT_EQ(history.epochs[0].step, 3);
  EXPECT_EQ(history.epochs[0].logs.at("val_loss"), now.at("loss"));
}

TEST_F(SavedMoments, AnEvaluationIsNoLongerThatOfVariablesThatWereWrittenSince) {
  SmallTraining training(true);
  FunctionBatches test(small_batch);
  Checkpoints checkpoints(run);
  CheckpointCallback saving(checkpoints);
  const auto fit = [&] {
    return training.trainer.fit(
        source, {.max_steps = 3, .validation = &test, .validate_at_end = true, .callbacks = {&training.rate, &saving}});
  };
  fit();
  const double before = checkpoints.list().back().metrics.at("val_loss");
  EXPECT_EQ(fit().evaluated_step, -1) << "nothing has changed";
  for (Value variable : training.model.graph.values(kTrainableVariables)) {
    HostTensor written = training.session.read(variable);
    for (float& number : written.values<float>()) number *= 50;
    training.session.write(variable, written);
  }
  // Nor that of who goes on from a checkpoint of these.
  training.trainer.fit(source, {.max_steps = 3, .callbacks = {&training.rate, &saving}});
  SmallTraining again(true);
  ASSERT_TRUE(resume(again.trainer, checkpoints).has_value());
  EXPECT_EQ(again.trainer
                .fit(source, {.max_steps = 3, .validation = &test, .validate_at_end = true, .callbacks = {&again.rate}})
                .evaluated_step,
            3);
  EXPECT_EQ(fit().evaluated_step, 3);
  const double after = checkpoints.list().back().metrics.at("val_loss");
  EXPECT_NE(after, before);
  EXPECT_EQ(after, training.trainer.evaluate(test).at("loss"));
}

TEST_F(SavedMoments, ACheckpointThatSomebodyHasRemovedIsNotMissed) {
  SmallTraining training(true);
  Checkpoints checkpoints(run, {.keep = 1});
  CheckpointCallback saving(checkpoints, {.every_steps = 1});
  Hooks hooks;
  hooks.step = [&](const TrainerState& state) {
    std::filesystem::remove_all(run + "/step-" + std::to_string(state.step));
  };
  const testing_support::LogLines log;
  training.trainer.fit(source, {.steps = 4, .callbacks = {&training.rate, &saving, &hooks}});
  for (const std::string& line : log.lines) EXPECT_THAT(line, testing::Not(HasSubstr("an old checkpoint stays")));
}

}  // namespace
}  // namespace sectionflow
