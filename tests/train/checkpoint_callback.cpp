// Checkpoints that a callback saves, and trainings that go on from them.

#include "train/checkpoint_callback.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "tests/support/log_lines.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/small_training.h"

namespace sectionflow {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing_support::difference_of;
using testing_support::Hooks;
using testing_support::LogLines;
using testing_support::small_session;
using testing_support::SmallModel;
using testing_support::variables_of;

/// Examples by number, shuffled and shifted at random: 3 batches a pass, the last one smaller.
Dataset shuffled_batches(std::int64_t size = 8) {
  const auto numbered = [](std::int64_t index) -> std::optional<Example> {
    if (index >= 21) return std::nullopt;
    std::mt19937 words(static_cast<std::mt19937::result_type>(index + 1));
    HostTensor x(Dtype::f32, {6}), label(Dtype::i32, Shape{});
    for (float& number : x.values<float>()) number = static_cast<float>(words() % 2001) / 1000.0F - 1.0F;
    label.values<std::int32_t>()[0] = static_cast<std::int32_t>(words() % 3);
    Example example;
    example.emplace("x", std::move(x));
    example.emplace("label", std::move(label));
    return example;
  };
  const auto shift = [](Example example, const MapContext& context) {
    for (float& number : example.at("x").values<float>()) number += context.uniform(0);
    return example;
  };
  return Dataset::generate("numbered", numbered)
      .shuffle({.seed = 1, .buffer_bytes = 3000})
      .map(MapFunction(shift, "shift"), {.seed = 2})
      .batch({.size = size})
      .prefetch();
}

/// One start of a program: its model, in sections or not, and what trains it.
struct OneStart {
  explicit OneStart(bool in_sections, const std::string& folder, CheckpointCallbackOptions how = {.every_steps = 2},
                    CheckpointOptions which = {})
      : model(in_sections),
        session(model.graph, small_session()),
        trainer(model.trainer(session)),
        checkpoints(folder, std::move(which)),
        saving(checkpoints, std::move(how)) {
    session.initialize();
  }

  History fit(FitOptions options, std::vector<Callback*> first = {}) {
    options.callbacks = {&rate, &kept};
    options.callbacks.insert(options.callbacks.end(), first.begin(), first.end());
    options.callbacks.push_back(&saving);
    options.validation = &test;
    options.handle_signals = true;
    return trainer.fit(source, options);
  }
  std::vector<std::int64_t> saved_steps() {
    std::vector<std::int64_t> steps;
    for (const CheckpointInfo& info : checkpoints.list()) steps.push_back(info.step);
    return steps;
  }

  SmallModel model;
  Session session;
  Trainer trainer;
  DatasetBatches source{shuffled_batches()}, test{shuffled_batches(10)};
  LearningRate rate{model.rate, warm_up(3, cosine_rate(0.01, 12))};
  /// Must be told how many epochs there have been.
  struct Kept final : Callback {
    std::int64_t epochs = 0;
    void on_epoch(const TrainerState&) override { ++epochs; }
    std::string name() const override { return "Kept"; }
    std::string save() const override { return std::to_string(epochs); }
    void restore(const std::string& saved) override { epochs = std::stoll(saved); }
  } kept;
  Checkpoints checkpoints;
  CheckpointCallback saving;
};

Hooks raise_at(std::int64_t step, int signal) {
  Hooks hooks;
  hooks.step_begin = [=](const TrainerState& state, Feeds&) {
    if (state.step == step) std::raise(signal);
  };
  return hooks;
}

/// Puts a file where a folder is, behind the beginning of a training.
Hooks replace_by_a_file(const std::filesystem::path& folder) {
  Hooks hooks;
  hooks.step_begin = [=](const TrainerState& state, Feeds&) {
    if (state.step > 0) return;
    std::filesystem::remove_all(folder);
    std::ofstream(folder) << "a file where the folder is to be";
  };
  return hooks;
}

std::map<std::string, HostTensor> undisturbed(bool in_sections, std::int64_t steps) {
  const TemporaryFolder folder;
  OneStart program(in_sections, (folder.path() / "run").string());
  program.fit({.max_steps = steps});
  return variables_of(program.session);
}

struct CheckpointCallbackTest : testing::Test {
  CheckpointCallbackTest() { std::signal(SIGINT, SIG_DFL); }

  const TemporaryFolder folder;
  const std::string run = (folder.path() / "run").string();
};

TEST_F(CheckpointCallbackTest, AnInterruptedTrainingGoesOnByAnyStrategyWithTheSameBytes) {
  for (const bool first : {true, false}) {
    for (const bool second : {true, false}) {
      for (const bool is_asynchronous : {false, true}) {
        for (const std::int64_t at : {0, 4, 5, 6}) {
          SCOPED_TRACE(text_of("sections ", first, " then ", second, ", interrupted at ", at));
          const std::string place = text_of(run, first, second, is_asynchronous, at);
          {
            OneStart program(first, place, {.every_steps = 100}, {.asynchronous = is_asynchronous});
            EXPECT_FALSE(resume(program.trainer, program.checkpoints).has_value());
            Hooks interrupt = raise_at(at, SIGINT);
            const History history = program.fit({.max_steps = 11}, {&interrupt});
            EXPECT_EQ(history.steps, at + 1);
            EXPECT_EQ(history.exit_code(), 130);
            EXPECT_EQ(history.why,
                      text_of("got SIGINT; ended behind step ", at + 1, "; '", place, "' has a checkpoint of it"));
          }
          OneStart program(second, place);
          const auto resumed = resume(program.trainer, program.checkpoints);
          ASSERT_TRUE(resumed.has_value());
          EXPECT_EQ(resumed->checkpoint.step, at + 1);
          EXPECT_EQ(program.trainer.step(), at + 1);
          EXPECT_EQ(program.fit({.max_steps = 11}).steps, 10 - at);
          EXPECT_EQ(program.kept.epochs, 3);
          EXPECT_EQ(difference_of(undisturbed(true, 11), variables_of(program.session)), "");
        }
      }
    }
  }
}

TEST_F(CheckpointCallbackTest, AnInterruptedTrainingSaysThatItIsNotSaved) {
  OneStart never(false, run, {.at_end = false});
  Hooks interrupt = raise_at(1, SIGINT);
  EXPECT_EQ(never.fit({.max_steps = 9}, {&interrupt}).why,
            text_of("got SIGINT; ended behind step 2; '", run, "' has no checkpoint of it"));
  const std::filesystem::path file = folder.path() / "file";
  OneStart refused(false, file.string());
  Hooks in_the_way = replace_by_a_file(file);
  EXPECT_THAT(refused.fit({.max_steps = 9}, {&interrupt, &in_the_way}).why, HasSubstr("file' has no checkpoint of it"));
}

TEST_F(CheckpointCallbackTest, ATrainingThatDiesGoesOnFromItsLastCheckpoint) {
  std::int64_t starts = 0;
  for (bool is_done = false; !is_done && starts < 20; ++starts) {
    OneStart program(starts % 2 == 0, run);
    resume(program.trainer, program.checkpoints);
    // After three steps of each start, of which the checkpoint has two.
    Hooks dies;
    const std::int64_t first = program.trainer.step();
    dies.step = [&](const TrainerState& state) {
      if (state.step == first + 3) throw std::runtime_error("dies");
    };
    try {
      program.fit({.max_steps = 9}, {&dies});
      is_done = true;
      EXPECT_EQ(difference_of(undisturbed(true, 9), variables_of(program.session)), "");
    } catch (const std::runtime_error&) {
      EXPECT_EQ(program.saved_steps().back(), first + 2);
    }
  }
  EXPECT_EQ(starts, 5);
}

TEST_F(CheckpointCallbackTest, SavesWhenItIsToldToAndNothingTwice) {
  const CheckpointOptions all{.keep = 100};
  OneStart by_epochs(true, run + "1", {}, all);
  by_epochs.fit({.max_steps = 8});  // epochs end at 3 and 6
  EXPECT_THAT(by_epochs.saved_steps(), ElementsAre(3, 6, 8));
  EXPECT_EQ(by_epochs.checkpoints.statistics().saved, 3);
  by_epochs.fit({.max_steps = 8});
  EXPECT_EQ(by_epochs.checkpoints.statistics().saved, 3);
  by_epochs.fit({.max_epochs = 3});
  EXPECT_EQ(by_epochs.checkpoints.statistics().saved, 4);

  OneStart by_steps(true, run + "2", {.every_steps = 4, .every_epochs = 0, .at_end = false}, all);
  by_steps.fit({.max_steps = 9});
  EXPECT_THAT(by_steps.saved_steps(), ElementsAre(4, 8));
  OneStart at_end(true, run + "3", {.every_epochs = 0}, all);
  at_end.fit({.max_epochs = 2});
  EXPECT_THAT(at_end.saved_steps(), ElementsAre(6));
  OneStart second_epochs(true, run + "4", {.every_epochs = 2, .at_end = false, .strategy = "sections"}, all);
  second_epochs.fit({.max_epochs = 3});
  EXPECT_THAT(second_epochs.saved_steps(), ElementsAre(6));
  EXPECT_EQ(second_epochs.checkpoints.list().back().strategy, "sections");
}

TEST_F(CheckpointCallbackTest, MetricsAreTheLogsWithThoseOfEvaluations) {
  OneStart program(true, run, {.every_epochs = 1},
                   {.keep = 1, .best_metric = "val_accuracy", .higher_is_better = true});
  const History history = program.fit({.max_epochs = 4});
  const auto accuracies = history.of("val_accuracy");
  const CheckpointInfo last = program.checkpoints.list().back();
  EXPECT_EQ(last.metrics.at("val_accuracy"), accuracies.back());
  EXPECT_EQ(last.metrics.at("loss"), history.epochs.back().logs.at("loss"));
  EXPECT_TRUE(last.metrics.contains("learning_rate"));
  bool has_best = false;
  for (const CheckpointInfo& info : program.checkpoints.list()) {
    has_best = has_best || info.metrics.at("val_accuracy") == *std::max_element(accuracies.begin(), accuracies.end());
  }
  EXPECT_TRUE(has_best);
}

TEST_F(CheckpointCallbackTest, SavesNothingAfterAnError) {
  OneStart program(true, run, {.every_epochs = 0});
  Hooks hooks;
  hooks.step = [](const TrainerState& state) {
    if (state.step == 2) throw std::runtime_error("no");
  };
  EXPECT_THROW(program.fit({.max_steps = 5}, {&hooks}), std::runtime_error);
  EXPECT_THAT(program.saved_steps(), ElementsAre());
  EXPECT_EQ(program.fit({.max_steps = 5}).steps, 3);
  EXPECT_THAT(program.saved_steps(), ElementsAre(5));
}

TEST_F(CheckpointCallbackTest, SavesWhatACallbackHasStopped) {
  OneStart program(true, run, {.every_epochs = 0});
  Hooks hooks;
  hooks.step = [](const TrainerState& state) {
    if (state.step == 2) state.stop("enough");
  };
  EXPECT_EQ(program.fit({.max_steps = 5}, {&hooks}).reason, StopReason::callback);
  EXPECT_THAT(program.saved_steps(), ElementsAre(2));
}

TEST_F(CheckpointCallbackTest, TheLastOneHasTheVariablesThatTheSessionEndsWith) {
  for (const bool is_asynchronous : {false, true}) {
    const std::string place = text_of(run, is_asynchronous);
    OneStart program(true, place, {}, {.asynchronous = is_asynchronous});
    // No epoch is better than the first by that much.
    EarlyStopping stopping({.monitor = "loss", .patience = 1, .min_delta = 1e6, .restore_best = true});
    EXPECT_EQ(program.fit({.max_epochs = 9}, {&stopping}).reason, StopReason::callback);
    const auto best = variables_of(program.session);
    OneStart other(false, place);
    ASSERT_TRUE(resume(other.trainer, other.checkpoints).has_value());
    EXPECT_EQ(other.trainer.step(), program.trainer.step());
    EXPECT_EQ(difference_of(best, variables_of(other.session)), "");
    EXPECT_EQ(program.checkpoints.statistics().saved, 4) << "of three epochs, and of the end";
    EXPECT_TRUE(program.checkpoints.list().back().metrics.empty()) << "those of the last epoch are of other variables";
  }
}

TEST_F(CheckpointCallbackTest, AFolderThatCannotBeMadeIsRefusedBeforeTheFirstStep) {
  std::ofstream(run) << "a file where the folder is to be";
  OneStart program(true, run);
  EXPECT_THROW(program.fit({.max_steps = 5}), DataError);
  EXPECT_EQ(program.trainer.step(), 0);
  std::filesystem::remove(run);
  EXPECT_EQ(program.fit({.max_steps = 5}).steps, 5);
  OneStart second(true, run);
  EXPECT_THAT(whole_error_text<DataError>([&] { second.fit({.max_steps = 5}); }), HasSubstr("SF-E423"));
  EXPECT_EQ(second.trainer.step(), 0);
  EXPECT_THAT(program.saved_steps(), ElementsAre(3, 4, 5));
}

TEST_F(CheckpointCallbackTest, ABestMetricThatTheLogsWillNotHaveIsRefusedBeforeTheFirstStep) {
  testing_support::SmallTraining small(true);
  DatasetBatches source(shuffled_batches()), test(shuffled_batches());
  Checkpoints checkpoints(run, {.best_metric = "val_acc", .higher_is_better = true});
  CheckpointCallback saving(checkpoints);
  EXPECT_THAT(whole_error_text<ArgumentError>([&] {
                small.trainer.fit(source, {.epochs = 2, .validation = &test, .callbacks = {&small.rate, &saving}});
              }),
              AllOf(HasSubstr("SF-E608"), HasSubstr("CheckpointOptions::best_metric: there is no 'val_acc'"),
                    HasSubstr("'val_accuracy'")));
  EXPECT_EQ(small.trainer.step(), 0);
  EXPECT_FALSE(std::filesystem::exists(run));
  // A callback of which it is not known may log that name: one warning then, when an epoch is over.
  Hooks unknown;
  const LogLines log;
  small.trainer.fit(source, {.epochs = 2, .validation = &test, .callbacks = {&small.rate, &unknown, &saving}});
  EXPECT_THAT(log.lines, testing::Contains(HasSubstr("there is no 'val_acc'")).Times(1));
}

TEST_F(CheckpointCallbackTest, ADiskThatRefusesDoesNotEndTheTraining) {
  for (const bool is_asynchronous : {false, true}) {
    std::filesystem::remove_all(run);
    Hooks refuse = replace_by_a_file(run);
    OneStart program(true, run, {.every_steps = 2}, {.asynchronous = is_asynchronous});
    const LogLines log;
    EXPECT_EQ(program.fit({.max_steps = 5}, {&refuse}).steps, 5);
    EXPECT_GE(program.checkpoints.statistics().failures, 3);
    EXPECT_EQ(program.checkpoints.statistics().saved, 0);
    EXPECT_EQ(difference_of(undisturbed(true, 5), variables_of(program.session)), "");
    std::filesystem::remove(run);
    // There is a disk again: the end of the next fit is saved.
    EXPECT_EQ(program.fit({.max_steps = 7}).steps, 2);
    EXPECT_THAT(program.saved_steps(), testing::Contains(7));
    OneStart strict(true, folder.path() / "file" / "run", {.every_steps = 1}, {.stop_after_failures = 2});
    std::filesystem::remove_all(folder.path() / "file");
    Hooks in_the_way = replace_by_a_file(folder.path() / "file");
    EXPECT_THAT(whole_error_text<DataError>([&] { strict.fit({.max_steps = 9}, {&in_the_way}); }),
                HasSubstr("SF-E420"));
    EXPECT_EQ(strict.trainer.step(), 2);
  }
}

TEST_F(CheckpointCallbackTest, OptionsByWhichNothingIsSavedAreRefused) {
  Checkpoints checkpoints(run);
  EXPECT_THROW(CheckpointCallback(checkpoints, {.every_epochs = 0, .at_end = false}), ArgumentError);
  EXPECT_THROW(CheckpointCallback(checkpoints, {.every_steps = -1}), ArgumentError);
  EXPECT_THROW(CheckpointCallback(checkpoints, {.every_epochs = -1}), ArgumentError);
}

TEST_F(CheckpointCallbackTest, CheckpointsOfAnotherLoopAreRefusedBeforeAnythingChanges) {
  {
    OneStart program(true, run);
    program.fit({.max_steps = 4});
    // By hand, with the place in the data alone; it is older than the trainer's.
    ASSERT_TRUE(program.checkpoints.save(program.session, {.step = 5, .data_position = program.source.position()}));
  }
  OneStart program(true, run);
  const auto before = variables_of(program.session);
  EXPECT_THAT(whole_error_text<DataError>([&] { resume(program.trainer, program.checkpoints); }),
              AllOf(HasSubstr("SF-E617"), HasSubstr("step-5"), HasSubstr("restore_latest")));
  EXPECT_EQ(difference_of(before, variables_of(program.session)), "");
  EXPECT_EQ(program.trainer.step(), 0);
  EXPECT_EQ(program.session.completed_cycles(), 0U);
}

TEST_F(CheckpointCallbackTest, ResumingWithinAFitAndBeforeInitializeIsRefused) {
  OneStart program(true, run);
  Hooks hooks;
  hooks.epoch = [&](const TrainerState&) { resume(program.trainer, program.checkpoints); };
  EXPECT_THAT(whole_error_text<ArgumentError>([&] { program.fit({.max_epochs = 1}, {&hooks}); }), HasSubstr("SF-E604"));
  program.fit({.max_steps = 4});
  SmallModel model(true);
  Session session(model.graph, small_session());
  Trainer trainer = model.trainer(session);
  EXPECT_THROW(resume(trainer, program.checkpoints), ArgumentError);
  EXPECT_EQ(trainer.step(), 0);
}

TEST_F(CheckpointCallbackTest, OtherDataAreRefusedByTheNextFit) {
  {
    OneStart program(true, run);
    program.fit({.max_steps = 4});
  }
  OneStart program(true, run);
  resume(program.trainer, program.checkpoints);
  DatasetBatches other(shuffled_batches(5));
  const FitOptions options{.max_steps = 6, .callbacks = {&program.rate}};
  EXPECT_THAT(whole_error_text<ArgumentError>([&] { program.trainer.fit(other, options); }), HasSubstr("SF-E403"));
  // The right ones are still taken at the right place.
  program.fit({.max_steps = 6});
  EXPECT_EQ(difference_of(undisturbed(true, 6), variables_of(program.session)), "");
}

TEST_F(CheckpointCallbackTest, ADamagedCheckpointGivesWayToTheOneBefore) {
  {
    OneStart program(true, run);
    program.fit({.max_steps = 7});
    const std::filesystem::path last = program.checkpoints.list().back().path;
    for (const auto& file : std::filesystem::directory_iterator(last)) {
      std::filesystem::resize_file(file.path(), file.file_size() / 2);
    }
  }
  const LogLines log;
  OneStart program(false, run);
  const auto resumed = resume(program.trainer, program.checkpoints);
  ASSERT_TRUE(resumed.has_value());
  EXPECT_EQ(resumed->checkpoint.step, 6);
  program.fit({.max_steps = 9});
  EXPECT_EQ(difference_of(undisturbed(true, 9), variables_of(program.session)), "");
}

}  // namespace
}  // namespace sectionflow
