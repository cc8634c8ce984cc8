// What is known as a training begins: names, budgets and folders that will not do end it before its first step; what
// an earlier training knew of its source is no knowledge of another.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/fsuid.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <optional>

#include "tests/support/contains.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/small_training.h"

namespace sectionflow {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using namespace testing_support;

struct Begun : SmallTraining {
  Begun() : SmallTraining(true) {}
  std::string error_of(FitOptions options) {
    options.epochs = 1;
    options.callbacks.insert(options.callbacks.begin(), &rate);
    const std::string text = whole_error_text<Error>([&] { trainer.fit(source, options); });
    EXPECT_EQ(trainer.step(), 0);
    EXPECT_EQ(source.position(), "0 0");
    return text;
  }
  FunctionBatches source{small_batch};
};

TEST(BeforeTheFirstStep, AnOutlierGuardKnowsWhetherStepsGiveItsMonitors) {
  Begun begun;
  FunctionBatches validation(small_batch);
  OutlierGuard misspelt({.monitors = {"loss", "acuracy"}});
  EXPECT_THAT(begun.error_of({.callbacks = {&misspelt}}),
              AllOf(HasSubstr("SF-E608"), HasSubstr("OutlierGuard"), HasSubstr("is 'accuracy' the one")));
  OutlierGuard of_evaluations({.monitors = {"val_loss"}});
  EXPECT_THAT(begun.error_of({.validation = &validation, .callbacks = {&of_evaluations}}),
              AllOf(HasSubstr("SF-E608"), HasSubstr("no 'val_loss'")));
  OutlierGuard known({.monitors = {"loss", "accuracy", "learning_rate"}});
  EXPECT_EQ(begun.trainer.fit(begun.source, {.epochs = 1, .callbacks = {&begun.rate, &known}}).steps, 3);
}

TEST(BeforeTheFirstStep, ACallbackThatKeepsSomethingBehindTheOneThatSavesIsRefused) {
  const TemporaryFolder folder;
  Checkpoints checkpoints((folder.path() / "run").string());
  CheckpointCallback saving(checkpoints);
  EarlyStopping stopping({.monitor = "loss", .patience = 9});
  Begun begun;
  EXPECT_THAT(begun.error_of({.callbacks = {&saving, &stopping}}),
              AllOf(HasSubstr("ArgumentError"), HasSubstr("'EarlyStopping' stands behind CheckpointCallback")));
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "run"));
  // What keeps nothing, and what shows what others log, may stand there.
  Hooks hooks;
  Progress progress;
  EXPECT_EQ(
      begun.trainer.fit(begun.source, {.epochs = 1, .callbacks = {&begun.rate, &stopping, &saving, &hooks, &progress}})
          .steps,
      3);
}

TEST(BeforeTheFirstStep, ACallbackThatIsGivenTwiceIsRefused) {
  Begun begun;
  EarlyStopping stopping({.monitor = "loss", .patience = 9}), other({.monitor = "loss", .patience = 9});
  Hooks hooks;
  EXPECT_THAT(begun.error_of({.callbacks = {&stopping, &hooks, &stopping}}),
              AllOf(HasSubstr("ArgumentError"), HasSubstr("'EarlyStopping' is given twice")));
  EXPECT_THAT(begun.error_of({.callbacks = {&hooks, &hooks}}), HasSubstr("the callback is given twice"));
  EXPECT_EQ(begun.trainer.fit(begun.source, {.epochs = 1, .callbacks = {&begun.rate, &stopping, &other}}).steps, 3);
}

TEST(BeforeTheFirstStep, EvaluationsThatAreNeverMadeGiveNoNames) {
  Begun begun;
  FunctionBatches validation(small_batch);
  EarlyStopping stopping({.monitor = "val_loss"});
  EXPECT_THAT(begun.error_of({.validation = &validation, .validate_every = 0, .callbacks = {&stopping}}),
              AllOf(HasSubstr("SF-E608"), HasSubstr("val_loss")));
}

TEST(BeforeTheFirstStep, AnEvaluationThatDoesNotFitIsRefused) {
  for (const bool by_steps : {false, true}) {
    Begun begun;
    int batches = 0;
    FunctionBatches large([&](std::int64_t, std::int64_t batch) -> std::optional<Example> {
      ++batches;
      if (batch > 2) return std::nullopt;
      Example example;
      example.emplace("x", HostTensor(Dtype::f32, {200'000, 6}));
      example.emplace("label", HostTensor(Dtype::i32, {200'000}));
      return example;
    });
    FitOptions options{.validation = &large, .validate_every = by_steps ? 0 : 1, .validate_every_steps = by_steps};
    EXPECT_THAT(begun.error_of(options),
                AllOf(HasSubstr("BudgetError"), HasSubstr("device_memory is 4"),
                      HasSubstr("the planning of evaluations of FitOptions::validation, before step 1")));
    EXPECT_EQ(batches, 1);
    EXPECT_EQ(large.position(), "0 0") << "put back";
    // What is never evaluated need not fit.
    options = {.epochs = 1, .validation = &large, .validate_every = 0, .callbacks = {&begun.rate}};
    EXPECT_EQ(begun.trainer.fit(begun.source, options).steps, 3);
  }
}

TEST(BeforeTheFirstStep, AnEvaluationOfNothingOrWithoutAnEndIsRefused) {
  Begun begun;
  FunctionBatches empty([](std::int64_t, std::int64_t) { return std::optional<Example>(); });
  EXPECT_THAT(begun.error_of({.validation = &empty}),
              AllOf(HasSubstr("SF-E603"), HasSubstr("a pass of it is empty"),
                    HasSubstr("evaluations of FitOptions::validation, before step 1")));
  EXPECT_THAT(begun.error_of({.validation = &empty, .validate_every = 0, .validate_at_end = true}),
              HasSubstr("SF-E603"));
  Example tensors;
  tensors.emplace("x", HostTensor(Dtype::f32, {8, 6}));
  tensors.emplace("label", HostTensor(Dtype::i32, {8}));
  DatasetBatches endless(Dataset::from(std::move(tensors)).repeat().batch({.size = 8}));
  EXPECT_THAT(begun.error_of({.validation = &endless}), AllOf(HasSubstr("SF-E616"), HasSubstr("validation_steps")));
}

TEST(BeforeTheFirstStep, ATrainerThatTrainsNothingIsRefused) {
  Begun begun;
  const auto error_of = [&](Trainer trainer) {
    return whole_error_text<ArgumentError>(
        [&] { trainer.fit(begun.source, {.epochs = 1, .callbacks = {&begun.rate}}); });
  };
  EXPECT_THAT(error_of(Trainer(begun.session, *begun.model.manager, {.outputs = {{"logits", begun.model.logits}}})),
              AllOf(HasSubstr("SF-E603"), HasSubstr("has no loss"), HasSubstr("TrainerOptions::loss")));
  EXPECT_THAT(error_of(Trainer(begun.session, std::vector<Operation>(), {.loss = begun.model.loss})),
              AllOf(HasSubstr("SF-E603"), HasSubstr("no training operations"), HasSubstr("minimize")));
  EXPECT_EQ(begun.source.position(), "0 0");
  EXPECT_EQ(begun.session.completed_cycles(), 0U);
}

TEST(BeforeTheFirstStep, ALearningRateThatIsNotFedIsToldOfItsCallback) {
  Begun begun;
  EXPECT_THAT(whole_error_text<Error>([&] { begun.trainer.fit(begun.source, {.steps = 1}); }),
              AllOf(HasSubstr("SF-E301"), HasSubstr("placeholder 'rate' f32[] is not fed"), HasSubstr("needed:"),
                    HasSubstr("LearningRate schedule(rate, constant_rate(1e-3))")));
  FunctionBatches without([](std::int64_t pass, std::int64_t batch) {
    auto example = small_batch(pass, batch);
    if (example) example->erase("label");
    return example;
  });
  EXPECT_THAT(whole_error_text<Error>([&] { begun.trainer.fit(without, {.steps = 1, .callbacks = {&begun.rate}}); }),
              AllOf(HasSubstr("SF-E301"), HasSubstr("'label'"), Not(HasSubstr("LearningRate"))));
  EXPECT_EQ(begun.trainer.step(), 0);
}

TEST(BeforeTheFirstStep, AFolderForTensorBoardThatCannotBeMadeIsRefused) {
  const TemporaryFolder folder;
  TensorBoard board((folder.file("file", "in the way") / "run").string());
  Begun begun;
  EXPECT_THAT(begun.error_of({.callbacks = {&board}}),
              AllOf(HasSubstr("DataError"), HasSubstr("TensorBoard: "), HasSubstr("hint:")));
}

TEST(BeforeTheFirstStep, OneBatchOfEachSourceOfEvaluationsIsLookedAtOnce) {
  Begun begun;
  int asked = 0;
  FunctionBatches validation([&](std::int64_t pass, std::int64_t batch) {
    ++asked;
    return small_batch(pass, batch);
  });
  const FitOptions options{.epochs = 1, .validation = &validation, .callbacks = {&begun.rate}};
  begun.trainer.fit(begun.source, options);
  EXPECT_EQ(asked, 1 + 4);
  begun.trainer.fit(begun.source, options);
  EXPECT_EQ(asked, 1 + 4 + 4);
}

/// Has the files of this thread be made as by nobody in particular, where it may.
class AsNobody {
 public:
  AsNobody() : before_(setfsuid(65534)) {}
  ~AsNobody() { setfsuid(static_cast<uid_t>(before_)); }

 private:
  int before_;
};

TEST(BeforeTheFirstStep, AFolderOfCheckpointsThatIsNotToBeWrittenIsRefused) {
  const TemporaryFolder folder;
  std::filesystem::permissions(folder.path(), std::filesystem::perms(0755));
  const std::filesystem::path run = folder.path() / "run";
  std::filesystem::create_directory(run);
  std::filesystem::permissions(run, std::filesystem::perms(0555));
  Begun begun;
  Checkpoints checkpoints(run.string());
  CheckpointCallback saving(checkpoints);
  {
    const AsNobody nobody;
    EXPECT_THAT(begun.error_of({.callbacks = {&saving}}),
                AllOf(HasSubstr("DataError"), HasSubstr("run'"), HasSubstr("cannot be written to"),
                      HasSubstr("may this process write there?")));
  }
  std::filesystem::permissions(run, std::filesystem::perms(0755));
  EXPECT_TRUE(std::filesystem::is_empty(run));
  EXPECT_EQ(begun.trainer.fit(begun.source, {.epochs = 1, .callbacks = {&begun.rate, &saving}}).steps, 3);
  EXPECT_EQ(checkpoints.list().size(), 1U);
}

/// What steps know of the length of a pass, and the epochs that a limit at the pass's end ends.
struct Known {
  explicit Known(Begun& begun) : begun_(begun) {
    hooks_.step = [this](const TrainerState& state) { told.push_back(state.steps_per_epoch); };
  }
  std::size_t fit(BatchSource& source, std::int64_t steps) {
    told.clear();
    return begun_.trainer.fit(source, {.steps = steps, .callbacks = {&begun_.rate, &hooks_}}).epochs.size();
  }
  std::vector<std::int64_t> told;

 private:
  Begun& begun_;
  Hooks hooks_;
};

FunctionBatches batches_in_a_pass(std::int64_t count) {
  return FunctionBatches([count](std::int64_t pass, std::int64_t batch) {
    return batch < count ? small_batch(pass, batch % 2) : std::nullopt;
  });
}

TEST(BeforeTheFirstStep, AFolderWithCheckpointsOfAnotherTrainingIsRefused) {
  const TemporaryFolder folder;
  const std::string run = (folder.path() / "run").string();
  {
    Begun begun;
    Checkpoints checkpoints(run);
    CheckpointCallback saving(checkpoints, {.every_steps = 2});
    begun.trainer.fit(begun.source, {.epochs = 1, .callbacks = {&begun.rate, &saving}});
  }
  Begun other;
  Checkpoints checkpoints(run);
  const std::size_t before = checkpoints.list().size();
  CheckpointCallback saving(checkpoints);
  EXPECT_THAT(other.error_of({.callbacks = {&saving}}),
              AllOf(HasSubstr("has checkpoints of another, that of step "), HasSubstr("resume(trainer, checkpoints)")));
  EXPECT_EQ(checkpoints.list().size(), before);
  EXPECT_TRUE(resume(other.trainer, checkpoints).has_value());
  EXPECT_EQ(other.trainer.fit(other.source, {.steps = 1, .callbacks = {&other.rate, &saving}}).steps, 1);
}

TEST(BeforeTheFirstStep, TheBatchesOfAPassAreThoseOfTheSourceThatIsGiven) {
  Begun begun;
  Known known(begun);
  auto source = std::make_unique<FunctionBatches>(batches_in_a_pass(3));
  EXPECT_EQ(known.fit(*source, 4), 1U);
  EXPECT_THAT(known.told, ElementsAre(0, 0, 0, 3));
  EXPECT_EQ(known.fit(*source, 2), 1U) << "of the same source it is known where a pass ends";
  EXPECT_THAT(known.told, ElementsAre(3, 3));
  // Another source in the place of the first, and one beside it.
  *source = batches_in_a_pass(2);
  EXPECT_EQ(known.fit(*source, 3), 1U);
  EXPECT_THAT(known.told, ElementsAre(0, 0, 2));
  FunctionBatches other = batches_in_a_pass(4);
  EXPECT_EQ(known.fit(other, 5), 1U) << "the epoch that was under way, which is no pass of it";
  EXPECT_THAT(known.told, ElementsAre(0, 0, 0, 0, 0));
  EXPECT_EQ(known.fit(other, 4), 1U);
  EXPECT_THAT(known.told, ElementsAre(0, 0, 0, 4));
}

}  // namespace
}  // namespace sectionflow
