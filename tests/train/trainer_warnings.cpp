// What a training says of itself without ending: a loss that is not finite, updates that its steps leave out.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <sstream>

#include "graph/nodes/update.h"
#include "tests/support/log_lines.h"
#include "tests/train/small_training.h"

namespace sectionflow {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using namespace testing_support;

/// The lines of the log that a fit has written with this in them.
std::vector<std::string> lines_of(const LogLines& log, const std::string& part) {
  std::vector<std::string> lines;
  std::copy_if(log.lines.begin(), log.lines.end(), std::back_inserter(lines),
               [&](const std::string& line) { return line.find(part) != std::string::npos; });
  return lines;
}

TEST(TrainerWarnings, NameTheFirstStepWhoseLossIsNotFiniteOnceAFit) {
  SmallTraining failing(true);
  FunctionBatches source([](std::int64_t pass, std::int64_t batch) {
    auto example = small_batch(pass, batch);
    if (example && batch == 1) example->at("x").values<float>()[0] = std::numeric_limits<float>::quiet_NaN();
    return example;
  });
  const LogLines log;
  std::ostringstream stream;
  Progress progress({.stream = &stream, .is_terminal = false, .min_interval_seconds = 0.0});
  EXPECT_EQ(failing.trainer.fit(source, {.epochs = 2, .callbacks = {&failing.rate, &progress}}).steps, 6);
  EXPECT_THAT(lines_of(log, "the loss of step"),
              ElementsAre(AllOf(HasSubstr("the loss of step 2 is nan"), HasSubstr("FiniteCheck"))));
  EXPECT_THAT(stream.str(), AllOf(HasSubstr("loss nan"), Not(HasSubstr("-nan"))));
  SmallTraining finite(true);
  FunctionBatches finite_source(small_batch);
  const LogLines quiet;
  finite.trainer.fit(finite_source, {.epochs = 1, .callbacks = {&finite.rate}});
  EXPECT_THAT(lines_of(quiet, "fit: "), IsEmpty());
}

TEST(TrainerWarnings, TellThatUpdatesOfMovingAveragesAreLeftOut) {
  SmallModel model(false);
  Session session(model.graph, small_session());
  session.initialize();
  LearningRate rate(model.rate, constant_rate(0.01));
  FunctionBatches source(small_batch);
  const auto warnings = [&](std::vector<Operation> training) {
    Trainer trainer(session, std::move(training), model.options());
    const LogLines log;
    trainer.fit(source, {.epochs = 1, .callbacks = {&rate}});
    return lines_of(log, "kUpdateOperations");
  };
  EXPECT_THAT(warnings(model.training), IsEmpty());
  const std::vector<Operation> bare(model.training.begin(), model.training.end() - 2);
  EXPECT_THAT(warnings(bare), ElementsAre(HasSubstr("leave out 2 updates of moving averages")));
  // Of another network of the graph, which these steps do not run, nothing is wanted.
  batch_norm(dense(model.x, {.features = 4, .name = "other"}), {.name = "other_norm"});
  EXPECT_THAT(warnings(model.training), IsEmpty());
  SmallTraining in_sections(true);
  const LogLines log;
  in_sections.trainer.fit(source, {.epochs = 1, .callbacks = {&in_sections.rate}});
  EXPECT_THAT(lines_of(log, "kUpdateOperations"), IsEmpty());
}

TEST(TrainerWarnings, KnowWhatIsAveragedOfAllRanksByWhatEachComputes) {
  SmallModel model(false);
  Graph& graph = model.graph;
  const Value average = variable("loss_average", fill(graph, {}, 0.0F), {.trainable = false});
  const Value sum = variable("loss_sum", fill(graph, {}, 0.0F), {.trainable = false});
  const Value index = variable("index", fill(graph, {}, 0, Dtype::i64), {.trainable = false});
  graph.add_to_collection(kUpdateOperations,
                          update_moving_average(average, all_reduced({sum}, {model.loss}, index, 2).front(), 0.9F));
  Session session(graph, small_session());
  session.initialize();
  LearningRate rate(model.rate, constant_rate(0.01));
  FunctionBatches source(small_batch);
  Trainer trainer(session, model.training, model.options());
  const LogLines log;
  trainer.fit(source, {.epochs = 1, .callbacks = {&rate}});
  EXPECT_THAT(lines_of(log, "kUpdateOperations"), ElementsAre(HasSubstr("leave out 1 updates of moving averages")));
}

}  // namespace
}  // namespace sectionflow
