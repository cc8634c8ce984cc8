// Trainer: the loop that it takes off one's hands, with the same bits.

#include "train/trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/contains.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/small_training.h"

namespace sectionflow {
namespace {

using namespace testing_support;
using Variables = std::map<std::string, HostTensor>;

/// Trains two passes by hand: 6 steps.
Variables trained_by_hand(bool in_sections) {
  SmallModel model(in_sections);
  Session session(model.graph, small_session());
  session.initialize();
  for (std::int64_t pass = 0; pass < 2; ++pass) {
    for (std::int64_t i = 0; const auto batch = small_batch(pass, i); ++i) {
      const Feeds feeds = {{model.x, batch->at("x")}, {model.label, batch->at("label")}, {model.rate, 0.01}};
      if (in_sections) {
        model.manager->run_full_cycle(session, {model.loss}, feeds);
      } else {
        session.run(feeds, {.targets = model.training});
      }
    }
  }
  return variables_of(session);
}

TEST(Trainer, GivesTheBitsOfTheLoopByHandWholeAndInSections) {
  for (const bool in_sections : {false, true}) {
    SmallModel model(in_sections);
    Session session(model.graph, small_session());
    session.initialize();
    Trainer trainer = model.trainer(session);
    LearningRate rate(model.rate, constant_rate(0.01));
    FunctionBatches source(small_batch);
    const History history = trainer.fit(source, {.epochs = 2, .callbacks = {&rate}});
    EXPECT_EQ(difference_of(variables_of(session), trained_by_hand(in_sections)), "");
    EXPECT_EQ(history.steps, 6);
    EXPECT_EQ(history.num_examples, 42);
    EXPECT_EQ(history.reason, StopReason::completed);
    EXPECT_EQ(history.exit_code(), 0);
    ASSERT_EQ(history.epochs.size(), 2U);
    EXPECT_EQ(history.epochs[1].step, 6);
    EXPECT_EQ(session.completed_cycles(), 6U);
  }
}

TEST(Trainer, GivesTheSameBitsWithSwapsOfTheSessionAndOfLms) {
  const Variables wanted = trained_by_hand(false);
  {
    SmallModel model(false);
    Session session(model.graph, small_session());
    session.initialize();
    insert_swaps(session);
    Trainer trainer = model.trainer(session);
    LearningRate rate(model.rate, constant_rate(0.01));
    FunctionBatches source(small_batch);
    trainer.fit(source, {.epochs = 2, .callbacks = {&rate}});
    EXPECT_EQ(difference_of(variables_of(session), wanted), "");
  }
  SmallModel model(false);
  Session session(model.graph, small_session());
  session.initialize();
  Trainer trainer = model.trainer(session);
  LearningRate rate(model.rate, constant_rate(0.01));
  LmsCallback lms(model.graph, {.swapout_threshold = 2, .swapin_groupby = 0, .swapin_ahead = 1});
  FunctionBatches source(small_batch);
  trainer.fit(source, {.epochs = 2, .callbacks = {&rate, &lms}});
  ASSERT_TRUE(lms.result().has_value());
  EXPECT_GT(lms.result()->num_swap_outs, 0);
  EXPECT_EQ(difference_of(variables_of(session), wanted), "");
  EXPECT_TRUE(trainer.evaluate(source).contains("loss"));
}

/// A model in sections under a constant rate, with its session and trainer.
struct Training : SmallTraining {
  explicit Training(std::uint64_t seed = 3) : SmallTraining(true, seed) {}
  FunctionBatches source{small_batch};
};

TEST(Trainer, MeansOfAnEpochWeighBatchesByTheirSize) {
  Training training;
  double sum = 0;
  Hooks hooks;
  hooks.step = [&](const TrainerState& state) { sum += state.logs.at("loss") * static_cast<double>(state.batch_size); };
  const History history = training.trainer.fit(training.source, {.epochs = 1, .callbacks = {&training.rate, &hooks}});
  EXPECT_DOUBLE_EQ(history.of("loss").at(0), sum / 21);
  EXPECT_EQ(history.of("learning_rate").at(0), 0.01);
}

TEST(Trainer, AnEpochOfStepsGoesOnIntoTheNextPass) {
  Training training;
  std::vector<std::int64_t> sizes;
  Hooks hooks;
  hooks.step = [&](const TrainerState& state) {
    sizes.push_back(state.batch_size);
    EXPECT_EQ(state.steps_per_epoch, 2);
  };
  const History history =
      training.trainer.fit(training.source, {.epochs = 2, .steps_per_epoch = 2, .callbacks = {&training.rate, &hooks}});
  EXPECT_THAT(sizes, testing::ElementsAre(8, 8, 5, 8));
  EXPECT_EQ(history.epochs.size(), 2U);
  EXPECT_EQ(training.source.position(), "1 1");
}

TEST(Trainer, FitsOneAfterTheOtherGoOn) {
  Training whole, parts;
  whole.trainer.fit(whole.source, {.epochs = 3, .callbacks = {&whole.rate}});
  parts.trainer.fit(parts.source, {.steps = 2, .callbacks = {&parts.rate}});
  EXPECT_EQ(parts.trainer.epoch(), 0);
  parts.trainer.evaluate(parts.source);
  parts.trainer.fit(parts.source, {.epochs = 1, .callbacks = {&parts.rate}});
  EXPECT_EQ(parts.trainer.epoch(), 1);
  parts.trainer.fit(parts.source, {.max_epochs = 3, .callbacks = {&parts.rate}});
  EXPECT_EQ(parts.trainer.step(), 9);
  EXPECT_EQ(parts.trainer.fit(parts.source, {.max_steps = 9, .callbacks = {&parts.rate}}).steps, 0);
  EXPECT_EQ(difference_of(variables_of(whole.session), variables_of(parts.session)), "");
}

TEST(Trainer, AnEpochThatIsOnlyFoundCompleteDoesNotCount) {
  Training training;
  training.trainer.fit(training.source, {.steps = 3, .callbacks = {&training.rate}});
  EXPECT_EQ(training.trainer.fit(training.source, {.epochs = 1, .callbacks = {&training.rate}}).steps, 3);
  EXPECT_EQ(training.trainer.epoch(), 2);
}

TEST(Trainer, ALimitOfStepsAtTheEndOfAPassEndsTheEpochOnce) {
  Training training;
  training.trainer.fit(training.source, {.epochs = 1, .callbacks = {&training.rate}});
  int epochs = 0;
  Hooks hooks;
  hooks.epoch = [&](const TrainerState& state) {
    ++epochs;
    EXPECT_EQ(state.epoch, 2);
    EXPECT_EQ(state.step_in_epoch, 3);
  };
  training.trainer.fit(training.source, {.steps = 3, .max_epochs = 2, .callbacks = {&training.rate, &hooks}});
  EXPECT_EQ(epochs, 1) << "how long a pass is, the fit before it has found";
  training.trainer.fit(training.source, {.max_epochs = 2, .callbacks = {&training.rate, &hooks}});
  EXPECT_EQ(epochs, 1);
  EXPECT_EQ(training.trainer.step(), 6);
}

TEST(Trainer, EvaluatesAWholePassByTheSizeOfBatchesChangesNothingAndPutsTheSourceBack) {
  Training training;
  // It stands amid a pass.
  training.source.next();
  const Variables before = variables_of(training.session);
  std::vector<double> losses;
  std::vector<std::int64_t> sizes;
  Hooks hooks;
  hooks.evaluation_step = [&](const TrainerState& state) {
    losses.push_back(state.logs.at("loss"));
    sizes.push_back(state.batch_size);
  };
  const Logs results = training.trainer.evaluate(training.source, {.callbacks = {&hooks}});
  EXPECT_THAT(sizes, testing::ElementsAre(8, 8, 5));
  EXPECT_DOUBLE_EQ(results.at("loss"), (losses[0] * 8 + losses[1] * 8 + losses[2] * 5) / 21);
  EXPECT_EQ(training.source.position(), "0 1");
  EXPECT_EQ(difference_of(before, variables_of(training.session)), "");
  EXPECT_EQ(training.session.completed_cycles(), 0U);
  EXPECT_EQ(training.trainer.evaluate(training.source, {.steps = 4}).size(), 2U);
  EXPECT_EQ(training.source.position(), "0 1");
}

TEST(Trainer, EvaluationsAndPredictionsAreOfTheFirstPassWhereverTheSourceStands) {
  Example tensors;
  tensors.emplace("x", HostTensor(Dtype::f32, {21, 6}));
  tensors.emplace("label", HostTensor(Dtype::i32, {21}));
  for (float number = 0; float& x : tensors.at("x").values<float>()) x = number += 0.01F;
  DatasetBatches shuffled(Dataset::from(std::move(tensors)).shuffle({.seed = 1}).batch({.size = 8}).prefetch());
  FunctionBatches made(small_batch);
  Training training;
  for (BatchSource* source : std::initializer_list<BatchSource*>{&made, &shuffled}) {
    const Logs results = training.trainer.evaluate(*source), two = training.trainer.evaluate(*source, {.steps = 2});
    const Example predicted = training.trainer.predict(*source);
    ASSERT_EQ(predicted.at("logits").shape(), (Shape{21, 3}));
    for (int taken = 1; taken <= 9; ++taken) {
      source->next();
      const std::string position = source->position();
      EXPECT_EQ(training.trainer.evaluate(*source), results) << taken;
      EXPECT_EQ(training.trainer.evaluate(*source, {.steps = 2}), two) << taken;
      EXPECT_TRUE(bitwise_equal(training.trainer.predict(*source).at("logits"), predicted.at("logits"))) << taken;
      EXPECT_EQ(source->position(), position);
    }
  }
}

TEST(Trainer, AnEvaluationOfTheSourceThatIsTrainedOnTakesNothingFromTheTraining) {
  Training undisturbed, evaluated;
  undisturbed.trainer.fit(undisturbed.source, {.epochs = 2, .callbacks = {&undisturbed.rate}});
  std::vector<std::int64_t> sizes;
  Hooks hooks;
  hooks.step = [&](const TrainerState&) { evaluated.trainer.evaluate(evaluated.source); };
  hooks.evaluation_step = [&](const TrainerState& state) { sizes.push_back(state.batch_size); };
  evaluated.trainer.fit(evaluated.source, {.epochs = 2,
                                           .validation = &evaluated.source,
                                           .validate_every = 0,
                                           .validate_every_steps = 2,
                                           .callbacks = {&evaluated.rate, &hooks}});
  EXPECT_EQ(difference_of(variables_of(undisturbed.session), variables_of(evaluated.session)), "");
  EXPECT_THAT(sizes, testing::ElementsAre(8, 8, 5, 8, 8, 5, 8, 8, 5));
}

TEST(Trainer, PredictsARowAnExampleInTheirOrderWithAndWithoutLabels) {
  Training training;
  const Example predicted = training.trainer.predict(training.source);
  ASSERT_EQ(predicted.at("logits").shape(), (Shape{21, 3}));
  const auto last = small_batch(0, 2);
  const auto [logits] = training.session.run({training.model.logits}, {{training.model.x, last->at("x")}});
  const auto all = predicted.at("logits").values<float>();
  EXPECT_TRUE(std::equal(all.begin() + 48, all.end(), logits.values<float>().begin()));
  FunctionBatches unlabelled([](std::int64_t pass, std::int64_t batch) {
    auto example = small_batch(pass, batch);
    if (example) example->erase("label");
    return example;
  });
  EXPECT_TRUE(bitwise_equal(training.trainer.predict(unlabelled).at("logits"), predicted.at("logits")));
}

TEST(Trainer, ValidatesByEpochsAndBySteps) {
  Training training;
  FunctionBatches validation(small_batch);
  std::vector<std::int64_t> steps;
  Hooks hooks;
  hooks.evaluation = [&](const TrainerState& state, const Logs& results) {
    steps.push_back(state.step);
    EXPECT_EQ(results.size(), 2U);
    EXPECT_TRUE(results.contains("val_loss"));
  };
  const History history = training.trainer.fit(
      training.source,
      {.epochs = 4, .validation = &validation, .validate_every = 2, .callbacks = {&training.rate, &hooks}});
  EXPECT_THAT(steps, testing::ElementsAre(6, 12));
  EXPECT_EQ(history.of("val_loss").size(), 2U);
  steps.clear();
  training.trainer.fit(training.source, {.steps = 5,
                                         .validation = &validation,
                                         .validate_every = 0,
                                         .validate_every_steps = 2,
                                         .callbacks = {&training.rate, &hooks}});
  EXPECT_THAT(steps, testing::ElementsAre(14, 16));
}

TEST(Trainer, AFitMayEvaluateOnceMoreWhereItEnds) {
  for (const std::int64_t steps : {2, 3}) {  // three batches make a pass
    Training training;
    FunctionBatches validation(small_batch);
    std::vector<std::int64_t> evaluated;
    Hooks hooks;
    hooks.evaluation = [&](const TrainerState& state, const Logs&) { evaluated.push_back(state.step); };
    const History history = training.trainer.fit(
        training.source,
        {.steps = steps, .validation = &validation, .validate_at_end = true, .callbacks = {&training.rate, &hooks}});
    EXPECT_THAT(evaluated, testing::ElementsAre(steps));
    EXPECT_EQ(history.evaluated_step, steps);
  }
}

TEST(Trainer, TrainsAndEvaluatesByStepsAsEstimatorsDo) {
  Training training;
  FunctionBatches test(small_batch);
  const auto [results, history] =
      train_and_evaluate(training.trainer, {.source = &training.source, .max_steps = 7, .callbacks = {&training.rate}},
                         {.source = &test, .every_steps = 3});
  EXPECT_EQ(history.steps, 7);
  EXPECT_EQ(history.evaluated_step, 6);
  EXPECT_EQ(results.at("loss"), training.trainer.evaluate(test).at("loss"));
  EXPECT_NE(results.at("loss"), history.evaluation.at("loss"));
  const auto again = train_and_evaluate(
      training.trainer, {.source = &training.source, .max_steps = 7, .callbacks = {&training.rate}}, {.source = &test});
  EXPECT_EQ(again.history.steps, 0);
  EXPECT_EQ(again.results.at("loss"), results.at("loss"));
}

TEST(Trainer, GoesOnFromAPositionWithTheBitsOfAnUndisturbedTraining) {
  const LabeledImages images = synthetic_mnist({.train_size = 70, .test_size = 10}).train;
  const auto batches = [&] { return ImageBatches(images, {.batch = 16, .seed = 9}); };
  struct World {
    explicit World(const LabeledImages&) : manager(graph) {
      x = placeholder(graph, "image", {kDynamic, 28, 28, 1});
      label = placeholder(graph, "label", {kDynamic}, Dtype::i32);
      rate = placeholder(graph, "rate", {});
      Value hidden;
      {
        const auto section = manager.new_section();
        hidden = dropout(relu(dense(flatten(x), {.features = 12})), {.rate = 0.5F});
      }
      {
        const auto section = manager.new_section();
        loss = mean(softmax_cross_entropy(dense(hidden, {.features = 10}), label));
      }
      manager.add_training_ops(Adam{.learning_rate = rate}, loss);
      manager.prepare_training();
      session.emplace(graph, small_session(), Where::here());
      session->initialize();
      trainer.emplace(*session, manager, TrainerOptions{.loss = loss}, Where::here());
      plateau.emplace(rate, PlateauOptions{.rate = 0.01, .monitor = "loss", .patience = 0, .min_delta = 0.5},
                      Where::here());
    }
    Graph graph;
    GraphSectionManager manager;
    Value x, label, rate, loss;
    std::optional<Session> session;
    std::optional<Trainer> trainer;
    std::optional<PlateauLearningRate> plateau;
    OutlierGuard guard{{.least = 2}};
  };
  World whole(images);
  ImageBatches source = batches();
  whole.trainer->fit(source, {.max_epochs = 4, .callbacks = {&*whole.plateau, &whole.guard}});
  ASSERT_EQ(whole.trainer->step(), 20);
  ASSERT_LT(whole.plateau->rate(), 0.01);
  const TemporaryFolder folder;
  // Ends in the middle of an epoch, with one, and just before one is found complete.
  for (const std::int64_t steps : {1, 7, 10, 15}) {
    World before(images), after(images);
    std::string position;
    Hooks hooks;
    hooks.step = [&](const TrainerState& state) {
      if (state.step == steps) position = state.position();
    };
    ImageBatches first = batches(), second = batches();
    before.trainer->fit(first, {.max_steps = steps, .callbacks = {&*before.plateau, &before.guard, &hooks}});
    const std::string path = (folder.path() / "variables").string();
    save_variables(*before.session, path);
    load_variables(*after.session, path);
    after.trainer->restore(steps == 10 ? before.trainer->position() : position);
    const History history = after.trainer->fit(second, {.max_epochs = 4, .callbacks = {&*after.plateau, &after.guard}});
    EXPECT_EQ(history.steps, 20 - steps);
    EXPECT_EQ(after.trainer->position(), whole.trainer->position());
    EXPECT_EQ(difference_of(variables_of(*whole.session), variables_of(*after.session)), "") << steps;
    EXPECT_EQ(after.plateau->rate(), whole.plateau->rate());
  }
}

TEST(Trainer, RefusesPositionsThatAreNone) {
  Training training;
  training.trainer.fit(training.source, {.steps = 2, .callbacks = {&training.rate}});
  const std::string position = training.trainer.position();
  for (std::size_t size = 0; size < position.size(); ++size) {
    EXPECT_THROW(training.trainer.restore(position.substr(0, size)), DataError) << size;
  }
  EXPECT_TRUE(contains(whole_error_text<DataError>([&] { training.trainer.restore("[1,2]"); }), "SF-E609"));
  std::mt19937 words(1);
  for (int i = 0; i < 2000; ++i) {
    std::string damaged = position;
    damaged[words() % damaged.size()] = static_cast<char>(words());
    try {
      Trainer(training.session, *training.model.manager, training.model.options()).restore(damaged);
    } catch (const DataError&) {
    }
  }
  EXPECT_EQ(training.trainer.position(), position);
  EXPECT_THROW(training.source.restore("3"), DataError);
  EXPECT_THROW(training.source.restore("-1 0"), DataError);
  EXPECT_THROW(training.source.restore("1 1 "), DataError);
  EXPECT_EQ(training.source.position(), "0 2");
}

}  // namespace
}  // namespace sectionflow
