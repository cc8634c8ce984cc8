// StatisticsCsv: a table that goes on where its training does, and that no full disk ends.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "tests/support/log_lines.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/small_training.h"

namespace sectionflow {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;
using testing::Not;
using testing_support::Hooks;
using testing_support::LogLines;
using testing_support::small_batch;
using testing_support::small_session;
using testing_support::SmallModel;

/// A training of two epochs of three steps, each followed by an evaluation of three batches.
struct Listed {
  explicit Listed(const std::string& path) : csv(path), trainer(model.trainer(session)) { session.initialize(); }
  Listed(const Listed&) = delete;
  Listed& operator=(const Listed&) = delete;

  History fit(Callback& other, std::int64_t max_steps = 0) {
    return trainer.fit(
        source,
        {.max_epochs = 2, .max_steps = max_steps, .validation = &validation, .callbacks = {&rate, &csv, &other}});
  }

  StatisticsCsv csv;
  SmallModel model{false};
  Session session{model.graph, small_session()};
  Trainer trainer;
  LearningRate rate{model.rate, constant_rate(0.01)};
  FunctionBatches source{small_batch}, validation{small_batch};
};

/// The rows' types, epochs and steps, without the line of names.
std::vector<std::string> rows_of(const std::string& path) {
  std::istringstream lines(bytes_of_file(path));
  std::vector<std::string> rows;
  for (std::string line; std::getline(lines, line);) rows.push_back(line.substr(0, 6));
  EXPECT_EQ(rows.empty() ? "" : rows.front(), "step t");
  if (!rows.empty()) rows.erase(rows.begin());
  return rows;
}

/// Where a training like that stands behind so many steps.
std::string position_after(Listed& listed, std::int64_t steps) {
  SmallModel model(false);
  Session session(model.graph, small_session());
  session.initialize();
  Trainer trainer = model.trainer(session);
  LearningRate rate(model.rate, constant_rate(0.01));
  FunctionBatches source{small_batch};
  trainer.fit(source, {.steps = steps, .validation = &listed.validation, .callbacks = {&rate}});
  return trainer.position();
}

const std::vector<std::string> kAllRows = {"t,1,1,", "t,1,2,", "t,1,3,", "v,1,1,", "v,1,2,", "v,1,3,",
                                           "t,2,1,", "t,2,2,", "t,2,3,", "v,2,1,", "v,2,2,", "v,2,3,"};

TEST(StatisticsCsv, GoesOnBehindTheLastStepThatIsNotMadeAgain) {
  for (int place = 0; place < 8; ++place) {
    for (const bool is_cut : {false, true}) {
      SCOPED_TRACE(text_of("position ", place, is_cut ? ", half a row" : ""));
      const TemporaryFolder folder;
      const std::string path = (folder.path() / "steps.csv").string();
      std::vector<std::string> positions;
      {
        Listed first(path);
        Hooks hooks;
        hooks.step = hooks.epoch = [&](const TrainerState& state) { positions.push_back(state.position()); };
        first.fit(hooks);
        EXPECT_THAT(rows_of(path), ElementsAreArray(kAllRows));
      }
      ASSERT_EQ(positions.size(), 8U);
      if (is_cut) folder.file("steps.csv", bytes_of_file(path) + "t,2,1,0.0");
      Listed second(path);
      second.trainer.restore(positions[static_cast<std::size_t>(place)]);
      Hooks none;
      second.fit(none);
      EXPECT_THAT(rows_of(path), ElementsAreArray(kAllRows));
      EXPECT_EQ(second.csv.failures(), 0);
    }
  }
}

TEST(StatisticsCsv, GoesOnWithTheNextFitAndBeginsAnewWithAnotherTraining) {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "steps.csv").string();
  Hooks none;
  for (int training = 0; training < 2; ++training) {
    Listed listed(path);
    listed.fit(none, 2);
    EXPECT_THAT(rows_of(path), ElementsAreArray({"t,1,1,", "t,1,2,"}));
    listed.fit(none, 4);
    listed.fit(none);
    EXPECT_THAT(rows_of(path), ElementsAreArray(kAllRows));
  }
}

TEST(StatisticsCsv, HasEachRowWhenItsStepIsDone) {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "steps.csv").string();
  Listed listed(path);
  Hooks hooks;
  hooks.step = [&](const TrainerState& state) {
    EXPECT_EQ(rows_of(path).back(), text_of("t,", state.epoch, ",", state.step_in_epoch, ","));
  };
  listed.fit(hooks);
}

TEST(StatisticsCsv, RowsOfAnEvaluationOutsideOfATrainingFollowWhatIsThere) {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "steps.csv").string();
  const auto evaluate = [&](Listed& listed) {
    listed.trainer.evaluate(listed.validation, {.callbacks = {&listed.csv}});
  };
  const std::vector<std::string> evaluated = {"v,0,1,", "v,0,2,", "v,0,3,"};
  {
    Listed first(path);
    evaluate(first);
    EXPECT_THAT(rows_of(path), ElementsAreArray(evaluated));
    Hooks none;
    first.fit(none);
    EXPECT_THAT(rows_of(path), ElementsAreArray(kAllRows));
  }
  folder.file("steps.csv", bytes_of_file(path) + "t,2,1,0.0");
  std::vector<std::string> all = kAllRows;
  Listed second(path);
  for (int call = 0; call < 2; ++call) {
    evaluate(second);
    all.insert(all.end(), evaluated.begin(), evaluated.end());
    EXPECT_THAT(rows_of(path), ElementsAreArray(all));
  }
  const std::string foreign = folder.file("foreign.csv", "name,age\nAda,36\n").string();
  Listed other(foreign);
  for (int call = 0; call < 2; ++call)
    EXPECT_THAT(whole_error_text<DataError>([&] { evaluate(other); }), HasSubstr("foreign.csv"));
  EXPECT_EQ(bytes_of_file(foreign), "name,age\nAda,36\n");
}

TEST(StatisticsCsv, RefusesToGoOnInAFileThatIsAnothers) {
  const TemporaryFolder folder;
  Hooks none;
  const std::string names = "step type,epoch,step,duration,allocs,reclaimOnes,reclaimAlls,GiB reclaimed\n";
  for (const std::string& text :
       {std::string("name,age\nAda,36\n"), std::string("no line"), names + "t,1,x,0,0,0,0,0\n",
        names + "t,1,1,0,0,0,0\n", names + "w,1,1,0,0,0,0,0\n"}) {
    const std::string path = folder.file("steps.csv", text).string();
    Listed listed((folder.path() / "first.csv").string());
    listed.fit(none, 2);
    StatisticsCsv other(path);
    EXPECT_THAT(whole_error_text<DataError>([&] {
                  listed.trainer.fit(listed.source, {.steps = 1, .callbacks = {&listed.rate, &other}});
                }),
                AllOf(HasSubstr("SF-E400"), HasSubstr("steps.csv"), HasSubstr("wanted"), HasSubstr("hint:")));
    EXPECT_EQ(bytes_of_file(path), text);
    EXPECT_EQ(listed.trainer.step(), 2);
  }
}

TEST(StatisticsCsv, WhatADiskRefusesIsHeldAndWrittenLaterAndWarnsOnce) {
  const TemporaryFolder folder;
  const auto place = folder.path() / "place";
  std::filesystem::create_directory(place);
  const std::string path = (place / "steps.csv").string();
  Listed listed(path);
  Hooks hooks;
  hooks.begin = [&](const TrainerState&) { std::filesystem::remove(place); };
  hooks.epoch = [&](const TrainerState& state) {
    if (state.epoch == 1) std::filesystem::create_directory(place);
  };
  const LogLines log;
  EXPECT_EQ(listed.fit(hooks).reason, StopReason::completed);
  EXPECT_THAT(rows_of(path), ElementsAreArray(kAllRows));
  // The first row, and the end of the epoch.
  EXPECT_EQ(listed.csv.failures(), 2);
  EXPECT_EQ(std::count_if(log.lines.begin(), log.lines.end(),
                          [](const std::string& line) { return line.find("StatisticsCsv: training goes on") == 0; }),
            1);
}

TEST(StatisticsCsv, RowsThatAreHeldFromOneFitToTheNextAreWrittenThen) {
  const TemporaryFolder folder;
  const auto place = folder.path() / "place";
  std::filesystem::create_directory(place);
  const std::string path = (place / "steps.csv").string();
  Listed listed(path);
  std::filesystem::remove(place);
  Hooks none;
  listed.fit(none, 2);
  EXPECT_GT(listed.csv.failures(), 0);
  std::filesystem::create_directory(place);
  listed.fit(none);
  EXPECT_THAT(rows_of(path), ElementsAreArray(kAllRows));
}

TEST(StatisticsCsv, RowsThatAreHeldTakeThePlaceOfThoseOfAnEarlierLongerTraining) {
  const TemporaryFolder folder;
  const auto place = folder.path() / "place", aside = folder.path() / "aside";
  std::filesystem::create_directory(place);
  const std::string path = (place / "steps.csv").string();
  Hooks none;
  {
    Listed longer(path);
    longer.fit(none);
  }
  // A mark in the row of the step that is trained again.
  std::string earlier = bytes_of_file(path);
  earlier.insert(earlier.find("t,1,2,") + 6, "77");
  folder.file("place/steps.csv", earlier);
  Listed again(path);
  again.trainer.restore(position_after(again, 1));
  Hooks hooks;
  hooks.begin = [&](const TrainerState&) { std::filesystem::rename(place, aside); };
  again.fit(hooks, 2);
  EXPECT_GT(again.csv.failures(), 0);
  std::filesystem::rename(aside, place);
  again.fit(none, 3);
  EXPECT_THAT(rows_of(path), ElementsAre("t,1,1,", "t,1,2,", "t,1,3,"));
  EXPECT_THAT(bytes_of_file(path), Not(HasSubstr("t,1,2,77")));
}

}  // namespace
}  // namespace sectionflow
