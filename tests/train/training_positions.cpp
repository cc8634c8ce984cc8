// Positions of trainings: when they are told, what they have of a step, and how long they may be.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <stdexcept>

#include "tests/support/contains.h"
#include "tests/support/log_lines.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/small_training.h"

namespace sectionflow {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using namespace testing_support;

/// Counts how often its position is told, and makes it as long as it is to be.
struct CountingBatches final : BatchSource {
  FunctionBatches batches{small_batch};
  std::shared_ptr<int> told = std::make_shared<int>(0);
  std::size_t tail_bytes = 0;

  std::optional<Example> next() override { return batches.next(); }
  std::string position() const override { return position_later()(); }
  std::function<std::string()> position_later() const override {
    return [text = batches.position(), told = told, bytes = tail_bytes] {
      ++*told;
      return text + std::string(bytes, '.');
    };
  }
  void restore(const std::string& position) override {
    ASSERT_GE(position.size(), tail_bytes);
    batches.restore(position.substr(0, position.size() - tail_bytes));
  }
};

struct PositionedTraining : SmallTraining {
  PositionedTraining() : SmallTraining(false) {}

  CountingBatches source{};
  FunctionBatches validation{small_batch};
};

TEST(TrainingPositions, AreToldOnlyWhereSomebodyWantsThem) {
  PositionedTraining training;
  training.trainer.fit(training.source, {.steps = 8, .callbacks = {&training.rate}});
  EXPECT_EQ(*training.source.told, 1) << "at the end of the fit";
  EXPECT_EQ(training.trainer.position(), training.trainer.position());
  EXPECT_EQ(*training.source.told, 1);
  Hooks hooks;
  hooks.step = [](const TrainerState& state) { EXPECT_EQ(state.position(), state.position()); };
  training.trainer.fit(training.source, {.steps = 2, .callbacks = {&training.rate, &hooks}});
  EXPECT_LE(*training.source.told, 5);
}

TEST(TrainingPositions, OfADataSetToldLaterAreThoseOfThatMoment) {
  std::vector<std::function<std::string()>> later;
  std::vector<std::string> at_once;
  {
    DatasetBatches source(Dataset::generate("numbers",
                                            [](std::int64_t index) -> std::optional<Example> {
                                              if (index >= 50) return std::nullopt;
                                              Example example;
                                              example.emplace("x", HostTensor::of<float>({1}, {float(index)}));
                                              return example;
                                            })
                              .shuffle({.seed = 1, .buffer_bytes = 300})
                              .batch({.size = 4})
                              .prefetch());
    for (int call = 0; call < 20; ++call) {
      later.push_back(source.position_later());
      at_once.push_back(source.position());
      source.next();
    }
  }
  for (std::size_t i = 0; i < later.size(); ++i) EXPECT_EQ(later[i](), at_once[i]) << i;
}

TEST(TrainingPositions, BetweenAStepAndItsEvaluationGoOnWithTheEvaluation) {
  std::string position;
  std::map<std::string, HostTensor> variables;
  Logs whole;
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "variables").string();
  for (const bool is_resumed : {false, true}) {
    PositionedTraining training;
    Hooks hooks;
    if (is_resumed) {
      load_variables(training.session, path);
      training.trainer.restore(position);
    } else {
      hooks.step = [&](const TrainerState& state) {
        if (state.step != 3) return;
        position = state.position();
        save_variables(state.session, path);
      };
    }
    PlateauLearningRate plateau(training.model.rate, {.rate = 0.01, .factor = 0.5, .patience = 0, .min_delta = 100});
    const History history = training.trainer.fit(training.source, {.max_steps = 12,
                                                                   .validation = &training.validation,
                                                                   .validate_every = 0,
                                                                   .validate_every_steps = 3,
                                                                   .callbacks = {&plateau, &hooks}});
    ASSERT_EQ(history.epochs.size(), 4U);
    ASSERT_TRUE(history.epochs[0].logs.contains("val_loss"));
    if (!is_resumed) {
      whole = history.epochs[0].logs;
      variables = variables_of(training.session);
    } else {
      EXPECT_EQ(history.epochs[0].logs.at("val_loss"), whole.at("val_loss"));
      EXPECT_EQ(difference_of(variables, variables_of(training.session)), "");
    }
  }
}

/// A training of two epochs of three steps that ends with the last of them.
struct TwoEpochs : PositionedTraining {
  History fit(std::int64_t steps_per_epoch, std::vector<Callback*> others) {
    others.insert(others.begin(), &rate);
    return trainer.fit(source, {.max_steps = 6,
                                .steps_per_epoch = steps_per_epoch,
                                .validation = &validation,
                                .callbacks = std::move(others)});
  }
};

TEST(TrainingPositions, OfTheLastStepOfAllGoOnWithTheEndOfItsEpoch) {
  for (const std::int64_t steps_per_epoch : {0, 3}) {
    SCOPED_TRACE(text_of("steps_per_epoch ", steps_per_epoch));
    const TemporaryFolder folder;
    const std::string path = (folder.path() / "variables").string();
    std::string position;
    Hooks hooks;
    hooks.step = [&](const TrainerState& state) {
      if (state.step != 6) return;
      position = state.position();
      save_variables(state.session, path);
    };
    TwoEpochs first, second;
    const History whole = first.fit(steps_per_epoch, {&hooks});
    ASSERT_EQ(whole.epochs.size(), 2U);
    load_variables(second.session, path);
    second.trainer.restore(position);
    std::vector<std::int64_t> told;
    Hooks tells;
    tells.epoch = [&](const TrainerState& state) { told.push_back(state.epoch); };
    const History rest = second.fit(steps_per_epoch, {&tells});
    EXPECT_EQ(rest.steps, 0);
    EXPECT_THAT(told, ElementsAre(2));
    ASSERT_EQ(rest.epochs.size(), 1U);
    EXPECT_EQ(rest.epochs[0].logs, whole.epochs[1].logs);
    EXPECT_TRUE(rest.epochs[0].logs.contains("val_loss"));
    EXPECT_EQ(rest.reason, StopReason::completed);
    EXPECT_EQ(second.trainer.epoch(), 2);
    EXPECT_EQ(second.trainer.position(), first.trainer.position());
    // And nothing is ended twice.
    EXPECT_EQ(second.fit(steps_per_epoch, {&tells}).epochs.size(), 0U);
    EXPECT_THAT(told, ElementsAre(2));
  }
}

TEST(TrainingPositions, OfAnEpochThatIsNotOverEndNothing) {
  std::string position;
  Hooks hooks;
  hooks.step = [&](const TrainerState& state) {
    if (state.step == 5) position = state.position();
  };
  TwoEpochs first, second;
  first.fit(0, {&hooks});
  second.trainer.restore(position);
  const History rest = second.trainer.fit(second.source, {.max_steps = 5, .callbacks = {&second.rate}});
  EXPECT_EQ(rest.epochs.size(), 0U);
  EXPECT_EQ(second.trainer.position(), position);
}

TEST(TrainingPositions, WithoutTheBatchesOfAPassAndNestedOnes) {
  PositionedTraining training;
  training.trainer.fit(training.source, {.epochs = 1, .callbacks = {&training.rate}});
  const std::string position = training.trainer.position(), told = "\"batches_per_pass\":3,";
  const std::size_t place = position.find(told);
  ASSERT_NE(place, std::string::npos) << position;
  // As one that was saved before there was such a number.
  training.trainer.restore(position.substr(0, place) + position.substr(place + told.size()));
  EXPECT_EQ(training.trainer.step(), 3);
  for (const char* nested : {"[[[]]]", "{\"a\":[[1]]}", "[[[[[[[[[[[[[["}) {
    EXPECT_THAT(whole_error_text<DataError>(
                    [&] { training.trainer.restore(text_of("{\"more\":", nested, ",", position.substr(1))); }),
                AllOf(HasSubstr("SF-E609"), HasSubstr("nested deeper")));
  }
  EXPECT_EQ(training.trainer.step(), 3);
}

TEST(TrainingPositions, WarnOfCallbacksThatAreOnOneSideOnly) {
  const auto warnings = [](const LogLines& log) {
    std::vector<std::string> found;
    for (const std::string& line : log.lines) {
      if (line.starts_with("fit: ")) found.push_back(line);
    }
    return found;
  };
  PositionedTraining first;
  EarlyStopping stopping({.monitor = "loss", .patience = 100});
  OutlierGuard guard, another;
  first.trainer.fit(first.source, {.steps = 4, .callbacks = {&first.rate, &guard, &stopping}});
  const std::string position = first.trainer.position();
  PositionedTraining same, other;
  {
    const LogLines log;
    same.trainer.restore(position);
    same.trainer.fit(same.source, {.steps = 1, .callbacks = {&same.rate, &stopping, &guard}});
    // Only a fit that goes on from elsewhere has something to find.
    same.trainer.fit(same.source, {.steps = 1, .callbacks = {&same.rate}});
    EXPECT_THAT(warnings(log), IsEmpty());
  }
  const LogLines log;
  other.trainer.restore(position);
  other.trainer.fit(other.source, {.steps = 1, .callbacks = {&other.rate, &guard, &another}});
  EXPECT_THAT(warnings(log),
              ElementsAre(AllOf(HasSubstr("callback OutlierGuard begins anew"), HasSubstr("kept nothing of it")),
                          AllOf(HasSubstr("a callback EarlyStopping has kept is lost"), HasSubstr("there is none"))));
}

TEST(TrainingPositions, LongOnesAreReadAndTooLongOnesAreNotGiven) {
  PositionedTraining training, other;
  training.source.tail_bytes = std::size_t{20} << 20;
  training.trainer.fit(training.source, {.steps = 1, .callbacks = {&training.rate}});
  const std::string position = training.trainer.position();
  EXPECT_GT(position.size(), std::size_t{16} << 20);
  other.trainer.restore(position);
  EXPECT_EQ(other.trainer.step(), 1);
  training.source.tail_bytes = 80'000'000;
  training.trainer.fit(training.source, {.steps = 1, .callbacks = {&training.rate}});
  EXPECT_THAT(whole_error_text<ArgumentError>([&] { (void)training.trainer.position(); }),
              AllOf(HasSubstr("SF-E609"), HasSubstr("buffer_bytes")));
}

TEST(TrainingPositions, TheLargestLimitsAreLimits) {
  PositionedTraining training;
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  Hooks hooks;
  hooks.step = [&](const TrainerState& state) {
    EXPECT_EQ(state.last_step, kMost);
    EXPECT_EQ(state.last_epoch, kMost);
    if (state.step_in_epoch == 2) state.stop("enough");
  };
  const FitOptions most = {
      .epochs = kMost, .steps = kMost, .max_epochs = kMost, .max_steps = kMost, .callbacks = {&training.rate, &hooks}};
  EXPECT_EQ(training.trainer.fit(training.source, most).steps, 2);
  EXPECT_EQ(training.trainer.fit(training.source, most).reason, StopReason::callback);
}

TEST(TrainingPositions, ABestEpochOfBeforeThatCannotBeSetAgainIsToldAtTheBeginningAndAtTheEnd) {
  const EarlyStoppingOptions options{.monitor = "loss", .patience = 2, .min_delta = 1e6, .restore_best = true};
  PositionedTraining first, second;
  EarlyStopping stopping(options);
  std::string position;
  Hooks hooks;
  // As a kill leaves it behind the second epoch.
  hooks.epoch = [&](const TrainerState& state) { position = state.position(); };
  first.trainer.fit(first.source, {.epochs = 2, .callbacks = {&first.rate, &stopping, &hooks}});
  second.trainer.restore(position);
  EarlyStopping again(options);
  const LogLines log;
  const History history = second.trainer.fit(second.source, {.max_epochs = 9, .callbacks = {&second.rate, &again}});
  EXPECT_THAT(log.lines, testing::Contains(
                             AllOf(HasSubstr("EarlyStopping: the session has the variables of step 6, not those of "),
                                   HasSubstr("of epoch 1"), HasSubstr("this start has no copy"))));
  EXPECT_EQ(history.reason, StopReason::callback);
  EXPECT_THAT(history.why, HasSubstr("in epoch 1, before this start, which cannot set it again"));
}

TEST(TrainingPositions, ACallbackThatCannotTellWhatItKeepsHidesNeitherTheErrorNorTheBatch) {
  struct Silent final : Callback {
    std::string name() const override { return "Silent"; }
    std::string save() const override { throw std::logic_error("what it keeps"); }
  };
  SmallTraining failing(true);
  FunctionBatches source(small_batch);
  Silent silent;
  Hooks hooks;
  hooks.step_begin = [](const TrainerState& state, Feeds&) {
    if (state.step == 1) throw std::runtime_error("planted");
  };
  int ends = 0;
  hooks.end = [&](const TrainerState&) { ++ends; };
  EXPECT_THROW(failing.trainer.fit(source, {.steps = 3, .callbacks = {&failing.rate, &silent, &hooks}}),
               std::runtime_error);
  EXPECT_EQ(source.position(), "0 1") << "the batch that was not trained comes again";
  EXPECT_EQ(failing.trainer.step(), 1);
  EXPECT_EQ(ends, 1);
}

TEST(TrainingPositions, OfEarlierVersionsGoOn) {
  PositionedTraining training;
  training.trainer.fit(training.source, {.steps = 2, .callbacks = {&training.rate}});
  std::string position = training.trainer.position();
  const std::string newer = "\"evaluated_step\":0,";
  ASSERT_NE(position.find(newer), std::string::npos) << position;
  position.erase(position.find(newer), newer.size());
  training.trainer.restore(position);
  const History history = training.trainer.fit(
      training.source,
      {.max_steps = 2, .validation = &training.validation, .validate_at_end = true, .callbacks = {&training.rate}});
  EXPECT_EQ(history.steps, 0);
  EXPECT_EQ(history.evaluated_step, -1) << "whether it was evaluated is not known: it is not done again";
  std::string other = position;
  other.replace(other.find("\"sectionflow_training\":1"), 24, "\"sectionflow_training\":2");
  EXPECT_THAT(whole_error_text<DataError>([&] { training.trainer.restore(other); }),
              AllOf(HasSubstr("SF-E609"), HasSubstr("of another version")));
}

}  // namespace
}  // namespace sectionflow
