// What a training that goes on is told of where it does not go on as it would have, and what it does not do again.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/support/log_lines.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/small_training.h"
#include "train/update_settings.h"

namespace sectionflow {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using namespace testing_support;

/// A layer that is trained whole as the options say.
struct OneLayer {
  OneLayer(const ParameterGroup& group, const UpdateOptions& options) {
    const Value y = dense(placeholder(graph, "x", {2, 3}), {.features = 2});
    (void)training_updates({group}, mean(reduce_mean(y, {.axes = {1}})), options);
    session = std::make_unique<Session>(graph, SessionOptions{.threads = 1});
    session->initialize();
  }
  Graph graph;
  std::unique_ptr<Session> session;
};

constexpr const char* kOther = "was saved by a training with other updates";

std::string warning_of(const OneLayer& then, const OneLayer& now) {
  const TemporaryFolder folder;
  Checkpoints checkpoints((folder.path() / "run").string());
  EXPECT_TRUE(checkpoints.save(*then.session, {.step = 1}));
  const LogLines log;
  EXPECT_TRUE(checkpoints.restore_latest(*now.session));
  const auto found = std::find_if(log.lines.begin(), log.lines.end(),
                                  [](const std::string& line) { return line.find(kOther) != std::string::npos; });
  return found == log.lines.end() ? "" : *found;
}

TEST(ResumedSettings, OfOtherUpdatesAWarningTellsBoth) {
  const ParameterGroup sgd{.optimizer = Sgd{}}, adam_w{.optimizer = AdamW{}};
  const auto average = [](float decay) { return UpdateOptions{.average = WeightAverageOptions{.decay = decay}}; };
  EXPECT_THAT(warning_of({sgd, {.micro_batches = 2}}, {sgd, {.micro_batches = 4}}),
              AllOf(HasSubstr("then: updates of 2 micro-batches"), HasSubstr("now: updates of 4 micro-batches")));
  EXPECT_THAT(warning_of({sgd, {}}, {{.optimizer = Sgd{}, .weight_decay = 0.01F}, {}}),
              AllOf(HasSubstr("then: apply_sgd, of 2 variables"), HasSubstr("now: apply_sgd weight_decay 0.01, of 2")));
  EXPECT_THAT(warning_of({adam_w, {}}, {{.optimizer = AdamW{}, .weight_decay = 0.5F}, {}}),
              AllOf(HasSubstr("weight_decay 0.01,"), HasSubstr("weight_decay 0.5,")));
  EXPECT_THAT(warning_of({sgd, average(0.5F)}, {sgd, average(0.75F)}),
              AllOf(HasSubstr("average_weights"), HasSubstr("decay 0.5"), HasSubstr("decay 0.75")));
  EXPECT_THAT(warning_of({sgd, {.clip_norm = 1}}, {sgd, {.clip_norm = 2}}), HasSubstr("clip_scale max_norm 2"));
  EXPECT_THAT(warning_of({sgd, {.clip_norm = 1}}, {sgd, {}}), HasSubstr("now: nothing besides"));
}

TEST(ResumedSettings, OfTheSameUpdatesAndOfAnotherRateNothingIsSaid) {
  const UpdateOptions options{.clip_norm = 1, .micro_batches = 3, .average = WeightAverageOptions{}};
  const ParameterGroup adam{.optimizer = Adam{.learning_rate = 0.1}, .weight_decay = 0.25F};
  const ParameterGroup slower{.optimizer = Adam{.learning_rate = 0.01}, .weight_decay = 0.25F};
  EXPECT_EQ(warning_of({adam, options}, {slower, options}), "");
  EXPECT_THAT(update_settings(OneLayer(adam, options).graph),
              ElementsAre("updates of 3 micro-batches", "clip_scale max_norm 1",
                          "apply_adam beta1 0.9 beta2 0.999 epsilon 1e-08 weight_decay 0.25, of 2 variables",
                          HasSubstr("average_weights kind exponential decay 0.999 start 0 every 1, of 2 variables")));
}

TEST(ResumedSettings, OfWhatIsNoListOfSettingsNothingIsKnown) {
  for (const char* text : {"", "{}", "[1]", "[\"a\"", "3"}) EXPECT_TRUE(read_update_settings(text).empty()) << text;
  EXPECT_THAT(read_update_settings(update_settings_text({"a\n\"", "\xff"})), ElementsAre("a\n\"", "\xEF\xBF\xBD"));
  EXPECT_EQ(differences_of_settings({}, {"a"}), "");
  EXPECT_EQ(differences_of_settings({"a", "b"}, {"b", "a"}), "");
}

TEST(ResumedSettings, AnEvaluationAtTheEndIsMadeOnceOverAllStarts) {
  const TemporaryFolder folder;
  for (int start = 0; start < 3; ++start) {
    SmallTraining training(true);
    FunctionBatches source(small_batch), test(small_batch);
    Checkpoints checkpoints((folder.path() / "run").string());
    // The last step is saved before it is evaluated.
    CheckpointCallback saving(checkpoints, {.every_steps = 2});
    (void)resume(training.trainer, checkpoints);
    const LogLines log;
    const History history = training.trainer.fit(
        source, {.max_steps = 4, .validation = &test, .validate_at_end = true, .callbacks = {&training.rate, &saving}});
    EXPECT_EQ(history.evaluated_step, start == 0 ? 4 : -1);
    EXPECT_EQ(checkpoints.list().back().step, 4);
    EXPECT_EQ(checkpoints.statistics().saved, start == 0 ? 4 : 0) << "behind steps 2, 3 and 4, and the evaluation";
    EXPECT_THAT(log.lines, Not(Contains(HasSubstr(kOther))));
  }
}

}  // namespace
}  // namespace sectionflow
