// Event files of a training: what is in them, when, and that no disk ends the training.

#include "train/tensorboard_callback.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <stdexcept>

#include "runtime/engine.h"
#include "tests/support/log_lines.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/small_training.h"

namespace sectionflow {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsSupersetOf;
using testing::Not;
using testing_support::difference_of;
using testing_support::Hooks;
using testing_support::LogLines;
using testing_support::small_batch;
using testing_support::small_session;
using testing_support::SmallModel;
using testing_support::variables_of;

/// The files of a run's folder, in the order in which they were made.
std::vector<LoggedEvent> events_of(const std::filesystem::path& folder) {
  std::set<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) paths.insert(entry.path().string());
  std::vector<LoggedEvent> events;
  for (const std::string& path : paths) {
    for (LoggedEvent& event : read_events(path)) events.push_back(std::move(event));
  }
  return events;
}

struct Curve {
  std::vector<std::int64_t> steps{};
  std::vector<float> values{};
};

std::map<std::string, Curve> curves_of(const std::vector<LoggedEvent>& events) {
  std::map<std::string, Curve> curves;
  for (const LoggedEvent& event : events) {
    for (const LoggedScalar& scalar : event.scalars) {
      curves[scalar.tag].steps.push_back(event.step);
      curves[scalar.tag].values.push_back(scalar.value);
    }
  }
  return curves;
}

std::set<std::string> tags_of(const std::map<std::string, Curve>& curves) {
  std::set<std::string> tags;
  for (const auto& [tag, curve] : curves) tags.insert(tag);
  return tags;
}

std::int64_t num_graphs(const std::vector<LoggedEvent>& events) {
  return std::count_if(events.begin(), events.end(), [](const LoggedEvent& event) { return event.graph.has_value(); });
}

std::vector<std::string> runs_of(const std::vector<LoggedEvent>& events) {
  std::vector<std::string> tags;
  for (const LoggedEvent& event : events) {
    if (event.run) tags.push_back(event.run->tag);
  }
  return tags;
}

struct Watched {
  explicit Watched(bool in_sections)
      : model(in_sections), session(model.graph, small_session()), trainer(model.trainer(session)) {
    session.initialize();
  }
  History fit(TensorBoard* board, FitOptions options) {
    options.validation = &test;
    options.callbacks.insert(options.callbacks.begin(), &rate);
    if (board != nullptr) options.callbacks.push_back(board);
    return trainer.fit(source, options);
  }

  SmallModel model;
  Session session;
  Trainer trainer;
  FunctionBatches source{small_batch}, test{small_batch};
  LearningRate rate{model.rate, constant_rate(0.01)};
};

TEST(TensorBoardCallback, WritesNumbersOfStepsEpochsAndEvaluations) {
  const TemporaryFolder folder;
  Watched watched(true);
  TensorBoard board((folder.path() / "run").string());
  const History history = watched.fit(&board, {.epochs = 2});
  const auto curves = curves_of(events_of(folder.path() / "run"));
  EXPECT_THAT(tags_of(curves), ElementsAre("accuracy", "epoch/accuracy", "epoch/learning_rate", "epoch/loss",
                                           "learning_rate", "loss", "memory/peak_bytes", "speed/data_share",
                                           "speed/examples_per_second", "val_accuracy", "val_loss"));
  EXPECT_THAT(curves.at("loss").steps, ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_EQ(curves.at("loss").values.back(), static_cast<float>(history.last_step.at("loss")));
  EXPECT_EQ(curves.at("learning_rate").values, std::vector<float>(6, 0.01F));
  EXPECT_THAT(curves.at("epoch/loss").steps, ElementsAre(3, 6));
  EXPECT_EQ(curves.at("epoch/loss").values.back(), static_cast<float>(history.of("loss").back()));
  EXPECT_THAT(curves.at("val_loss").steps, ElementsAre(3, 6));
  EXPECT_EQ(curves.at("val_loss").values.back(), static_cast<float>(history.of("val_loss").back()));
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_GT(curves.at("speed/examples_per_second").values[i], 0);
    EXPECT_GE(curves.at("speed/data_share").values[i], 0);
    EXPECT_LE(curves.at("speed/data_share").values[i], 1);
    EXPECT_GT(curves.at("memory/peak_bytes").values[i], 0);
  }
  EXPECT_EQ(board.failures(), 0);
}

TEST(TensorBoardCallback, WritesAsOftenAsItIsTold) {
  const TemporaryFolder folder;
  Watched watched(true);
  TensorBoard some((folder.path() / "some").string(), {.every_steps = 4, .graph = false});
  watched.fit(&some, {.max_steps = 9});
  const auto events = events_of(folder.path() / "some");
  EXPECT_THAT(curves_of(events).at("loss").steps, ElementsAre(1, 4, 8, 9));
  EXPECT_EQ(num_graphs(events), 0);
  TensorBoard none((folder.path() / "none").string(), {.every_steps = 0});
  watched.fit(&none, {.max_steps = 18});
  EXPECT_THAT(tags_of(curves_of(events_of(folder.path() / "none"))), Not(Contains("loss")));
  EXPECT_THAT(tags_of(curves_of(events_of(folder.path() / "none"))), IsSupersetOf({"epoch/loss", "val_loss"}));
  EXPECT_THROW(TensorBoard("x", {.every_steps = -1}), ArgumentError);
  EXPECT_THROW(TensorBoard("x", {.histogram_steps = -1}), ArgumentError);
  EXPECT_THROW(TensorBoard("x", {.profile_step = -1}), ArgumentError);
  EXPECT_FALSE(std::filesystem::exists("x"));
}

TEST(TensorBoardCallback, AShortTrainingHasItsFirstAndItsLastStep) {
  const TemporaryFolder folder;
  Watched watched(true);
  TensorBoard board(folder.path().string(), {.every_steps = 10});
  std::vector<float> losses;
  Hooks hooks;
  hooks.step = [&](const TrainerState& state) { losses.push_back(static_cast<float>(state.logs.at("loss"))); };
  watched.fit(&board, {.max_steps = 1, .callbacks = {&hooks}});
  watched.fit(&board, {.max_steps = 6, .callbacks = {&hooks}});
  const Curve curve = curves_of(events_of(folder.path())).at("loss");
  EXPECT_THAT(curve.steps, ElementsAre(1, 2, 6));
  // That of the step, though the epoch's means come between.
  EXPECT_THAT(curve.values, ElementsAre(losses[0], losses[1], losses[5]));
}

TEST(TensorBoardCallback, TheGraphIsWrittenOnceAsItIsAfterTheFirstStep) {
  const TemporaryFolder folder;
  Watched watched(false);
  TensorBoard board((folder.path() / "run").string());
  Hooks edits;
  edits.step_begin = [&](const TrainerState& state, Feeds&) {
    if (state.step == 0) placeholder(watched.model.graph, "added_late", {});
  };
  watched.fit(&board, {.epochs = 1, .callbacks = {&edits}});
  watched.fit(&board, {.epochs = 1});
  const auto events = events_of(folder.path() / "run");
  EXPECT_EQ(num_graphs(events), 1);
  for (const LoggedEvent& event : events) {
    if (!event.graph) continue;
    EXPECT_TRUE(std::any_of(event.graph->begin(), event.graph->end(),
                            [](const LoggedNode& node) { return node.name.find("added_late") != std::string::npos; }));
  }
  // Both fits are in one file.
  EXPECT_THAT(curves_of(events).at("loss").steps, ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(TensorBoardCallback, HistogramsAreThoseOfWeightsAndOfSummaries) {
  const TemporaryFolder folder;
  Graph graph;
  GraphSectionManager manager(graph);
  const Value x = placeholder(graph, "x", {kDynamic, 6}), label = placeholder(graph, "label", {kDynamic}, Dtype::i32);
  Value hidden, loss;
  {
    auto section = manager.new_section("first");
    hidden = relu(dense(x, {.features = 4}));
  }
  {
    auto section = manager.new_section("second");
    loss = mean(softmax_cross_entropy(dense(hidden, {.features = 3}), label));
  }
  manager.add_training_ops(Sgd{.learning_rate = 0.1F}, loss, {.summaries = true});
  manager.prepare_training();
  Session session(graph, small_session());
  session.initialize();
  Trainer trainer(session, manager, {.loss = loss});
  FunctionBatches source(small_batch);
  TensorBoard board((folder.path() / "run").string(), {.histogram_steps = 2});
  trainer.fit(source, {.steps = 5, .callbacks = {&board}});
  std::map<std::string, std::vector<std::int64_t>> steps;
  for (const LoggedEvent& event : events_of(folder.path() / "run")) {
    for (const LoggedHistogram& histogram : event.histograms) steps[histogram.tag].push_back(event.step);
  }
  EXPECT_EQ(steps.size(), 8U);  // kernel and bias of two layers
  for (const auto& [tag, at] : steps) EXPECT_THAT(at, ElementsAre(2, 4)) << tag;
  EXPECT_TRUE(std::any_of(steps.begin(), steps.end(),
                          [](const auto& each) { return each.first.starts_with("gradients of section 1 'second'"); }));
}

TEST(TensorBoardCallback, TheStepToBeProfiledIsTimedAndNoOther) {
  for (const bool in_sections : {true, false}) {
    const TemporaryFolder folder;
    Watched watched(in_sections);
    TensorBoard board((folder.path() / "run").string(), {.profile_step = 4});
    Trace own;
    watched.session.set_trace(&own);
    watched.fit(&board, {.max_steps = 3});
    EXPECT_THAT(runs_of(events_of(folder.path() / "run")), ElementsAre());
    watched.fit(&board, {.max_steps = 6});
    const auto events = events_of(folder.path() / "run");
    EXPECT_THAT(runs_of(events), ElementsAre("step 4"));
    for (const LoggedEvent& event : events) {
      if (!event.run) continue;
      EXPECT_EQ(event.step, 4);
      ASSERT_FALSE(event.run->devices.empty());
      EXPECT_GT(event.run->devices.front().executions.size(), 10U);
    }
    EXPECT_EQ(engine(watched.session).trace(), &own) << "the caller's, before and behind";
    watched.session.set_trace(nullptr);
    // Nobody writes into a trace that is gone.
    const Logs before = watched.trainer.evaluate(watched.test);
    EXPECT_FALSE(before.empty());
  }
}

TEST(TensorBoardCallback, SeveralHaveTheTimesOfTheSameStepAndOfNoEvaluationBesideIt) {
  const TemporaryFolder folder;
  Watched watched(true);
  const auto num_executions = [&](const char* name) {
    std::size_t count = 0;
    for (const LoggedEvent& event : events_of(folder.path() / name)) {
      for (const auto& device : event.run ? event.run->devices : decltype(event.run->devices){}) {
        count += device.executions.size();
      }
    }
    return count;
  };
  TensorBoard alone((folder.path() / "alone").string(), {.profile_step = 2});
  watched.fit(&alone, {.steps = 3});
  ASSERT_GT(num_executions("alone"), 10U);
  {
    TensorBoard first((folder.path() / "first").string(), {.profile_step = 5});
    TensorBoard second((folder.path() / "second").string(), {.profile_step = 5});
    Hooks evaluates;
    evaluates.step = [&](const TrainerState& state) {
      EXPECT_EQ(state.trace != nullptr, state.step == 5);
      watched.trainer.evaluate(watched.test);
    };
    watched.trainer.fit(watched.source, {.steps = 3, .callbacks = {&watched.rate, &evaluates, &first, &second}});
  }
  EXPECT_EQ(num_executions("first"), num_executions("alone"));
  EXPECT_EQ(num_executions("second"), num_executions("alone"));
  // Nobody writes into a trace that is gone.
  EXPECT_EQ(engine(watched.session).trace(), nullptr);
  EXPECT_EQ(watched.fit(nullptr, {.steps = 3}).steps, 3);
}

TEST(TensorBoardCallback, AProfiledStepThatThrowsLeavesNoTraceBehind) {
  const TemporaryFolder folder;
  Watched watched(true);
  {
    TensorBoard board((folder.path() / "run").string(), {.profile_step = 2});
    Hooks hooks;
    hooks.step_begin = [](const TrainerState& state, Feeds&) {
      if (state.step == 1) throw std::runtime_error("no");
    };
    // Behind the board, which has begun to trace.
    EXPECT_THROW(watched.trainer.fit(watched.source, {.epochs = 1, .callbacks = {&watched.rate, &board, &hooks}}),
                 std::runtime_error);
    EXPECT_THAT(runs_of(events_of(folder.path() / "run")), ElementsAre());
  }
  EXPECT_EQ(watched.fit(nullptr, {.max_epochs = 1}).steps, 2);
}

TEST(TensorBoardCallback, ATrainingThatGoesOnWritesAFileMore) {
  const TemporaryFolder folder;
  for (int start = 0; start < 2; ++start) {
    Watched watched(true);
    TensorBoard board(folder.path().string());
    watched.fit(&board, {.epochs = 1});
  }
  EXPECT_EQ(folder.num_files(), 2U);
}

TEST(TensorBoardCallback, AFileBeginsWithTheStepFromWhichOnEarlierOnesAreDropped) {
  const TemporaryFolder folder, other;
  std::string position;
  {
    Watched watched(true);
    TensorBoard board(other.path().string());
    watched.fit(&board, {.steps = 2});
    position = watched.trainer.position();
    const auto events = events_of(other.path());
    EXPECT_TRUE(events.at(1).is_start);
    EXPECT_EQ(events.at(1).step, 1);
  }
  Watched watched(true);
  watched.trainer.restore(position);
  TensorBoard board(folder.path().string());
  watched.fit(&board, {.max_steps = 5});
  const auto events = events_of(folder.path());
  EXPECT_EQ(events.at(0).file_version, "brain.Event:2");
  EXPECT_TRUE(events.at(1).is_start);
  EXPECT_EQ(events.at(1).step, 3);
  EXPECT_EQ(std::count_if(events.begin(), events.end(), [](const LoggedEvent& event) { return event.is_start; }), 1);
}

TEST(TensorBoardCallback, AFitThatHasGoneBackSaysFromWhichStepOnTheFileBegins) {
  const TemporaryFolder folder;
  Watched watched(true);
  TensorBoard board(folder.path().string());
  std::string position;
  Hooks hooks;
  hooks.step = [&](const TrainerState& state) {
    if (state.step == 2) position = state.position();
  };
  watched.fit(&board, {.max_steps = 4, .callbacks = {&hooks}});
  watched.fit(&board, {.max_steps = 5});
  watched.trainer.restore(position);
  watched.fit(&board, {.max_steps = 6});
  EXPECT_EQ(folder.num_files(), 1U);
  std::vector<std::int64_t> starts;
  for (const LoggedEvent& event : events_of(folder.path())) {
    if (event.is_start) starts.push_back(event.step);
  }
  EXPECT_THAT(starts, ElementsAre(1, 3)) << "a fit that goes on needs none";
}

TEST(TensorBoardCallback, AStartThatTrainsNothingLeavesNoFile) {
  const TemporaryFolder folder;
  Watched watched(true);
  watched.fit(nullptr, {.max_steps = 3});
  TensorBoard board(folder.path().string());
  EXPECT_EQ(watched.fit(&board, {.max_steps = 3}).steps, 0);
  EXPECT_EQ(folder.num_files(), 0U);
}

TEST(TensorBoardCallback, WhatCannotBeWrittenIsWarnedOfOnceAndTheTrainingGoesOn) {
  const TemporaryFolder folder;
  Watched plain(true);
  plain.fit(nullptr, {.epochs = 2});

  const std::filesystem::path run = folder.path() / "run";
  Watched watched(true);
  TensorBoard board(run.string(), {.histogram_steps = 1, .profile_step = 2});
  Hooks replaces;
  replaces.step_begin = [&](const TrainerState& state, Feeds&) {
    if (state.step > 0) return;
    std::filesystem::remove(run);
    std::ofstream(run) << "a file where the folder was";
  };
  const LogLines log;
  EXPECT_EQ(watched.fit(&board, {.epochs = 2, .callbacks = {&replaces}}).steps, 6);
  EXPECT_EQ(difference_of(variables_of(plain.session), variables_of(watched.session)), "");
  EXPECT_EQ(std::count_if(log.lines.begin(), log.lines.end(),
                          [](const std::string& line) { return line.find("TensorBoard") != std::string::npos; }),
            1);
  EXPECT_GT(board.failures(), 10);
  // There is a folder now.
  std::filesystem::remove(run);
  watched.fit(&board, {.epochs = 1});
  EXPECT_THAT(curves_of(events_of(run)).at("loss").steps, ElementsAre(7, 8, 9));
}

}  // namespace
}  // namespace sectionflow
