// Trainer: what a batch counts in means over batches.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>

#include "tests/support/contains.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/small_training.h"
#include "train/trainer.h"

namespace sectionflow {
namespace {

using namespace testing_support;

TEST(Trainer, MeansOfAnEpochAndOfAnEvaluationWeighBatchesByWhatTheyCount) {
  for (const bool in_sections : {false, true}) {
    SmallModel model(in_sections);
    TrainerOptions options = model.options();
    // Labels of 0 are padding; the second batch has nothing else.
    options.weight = reduce_sum(cast(model.label > 0.0F, Dtype::f32));
    const auto batch_of = [](std::int64_t pass, std::int64_t i) {
      auto batch = small_batch(pass, i);
      if (i != 1) return batch;
      for (std::int32_t& label : batch->at("label").values<std::int32_t>()) label = 0;
      return batch;
    };
    FunctionBatches source(batch_of);
    Session session(model.graph, small_session());
    session.initialize();
    Trainer trainer =
        in_sections ? Trainer(session, *model.manager, options) : Trainer(session, model.training, options);
    LearningRate rate(model.rate, constant_rate(0));
    double sum = 0, counted = 0;
    Hooks hooks;
    hooks.step = [&](const TrainerState& state) {
      EXPECT_FALSE(state.logs.contains("weight"));
      if (state.step_in_epoch == 2) return;
      const auto batch = small_batch(0, state.step_in_epoch - 1);
      double weight = 0;
      for (const std::int32_t label : batch->at("label").values<std::int32_t>()) weight += label > 0 ? 1 : 0;
      sum += state.logs.at("accuracy") * weight;
      counted += weight;
    };
    const History history = trainer.fit(source, {.steps = 2, .callbacks = {&rate, &hooks}});
    EXPECT_EQ(history.steps, 2);
    trainer.restore(trainer.position());  // which tells the weights so far
    const History rest = trainer.fit(source, {.epochs = 1, .callbacks = {&rate, &hooks}});
    EXPECT_DOUBLE_EQ(rest.of("accuracy").at(0), sum / counted);
    // What does not count may be NaN.
    FunctionBatches damaged([&](std::int64_t pass, std::int64_t i) {
      auto batch = batch_of(pass, i);
      if (i == 1) batch->at("x").values<float>()[0] = NAN;
      return batch;
    });
    const Logs evaluated = trainer.evaluate(damaged);
    EXPECT_TRUE(std::isfinite(evaluated.at("accuracy")) && std::isfinite(evaluated.at("loss")));
  }
}

TEST(Trainer, AWeightThatIsNoWeightEndsTheTraining) {
  SmallModel model(true);
  TrainerOptions options = model.options();
  options.weight = -reduce_sum(square(cast(model.logits, Dtype::f32)));
  Session session(model.graph, small_session());
  session.initialize();
  Trainer trainer(session, *model.manager, options);
  FunctionBatches source([](std::int64_t pass, std::int64_t i) { return small_batch(pass, i); });
  const std::string told = "wanted a number, 0 or more";
  EXPECT_TRUE(contains(error_text<ArgumentError>([&] { (void)trainer.evaluate(source); }), told));
  LearningRate rate(model.rate, constant_rate(0.1F));
  for (const std::int64_t steps : {1, 2}) {  // each is done, and counts
    const auto fit = [&] { (void)trainer.fit(source, {.steps = 3, .callbacks = {&rate}}); };
    EXPECT_TRUE(contains(error_text<ArgumentError>(fit), told));
    EXPECT_EQ(trainer.step(), steps);
  }
}

TEST(Trainer, AWeightIsASingleNumber) {
  SmallModel model(true);
  TrainerOptions options = model.options();
  options.weight = model.logits;
  Session session(model.graph, small_session());
  EXPECT_TRUE(contains(error_text<ArgumentError>([&] { Trainer(session, *model.manager, options); }),
                       "Trainer: 'weight' is f32[?,3]; wanted a single number"));
  EXPECT_TRUE(contains(error_text<ArgumentError>([&] { Trainer(session, *model.manager, options); }), "reduce_sum"));
}

}  // namespace
}  // namespace sectionflow
