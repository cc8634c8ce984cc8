// Batches in memory that the session lends: the same bytes under every strategy, counted in host_memory, and back where
// they came from whatever ends a training.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <random>
#include <stdexcept>
#include <thread>

#include "runtime/engine.h"
#include "runtime/lent_memory.h"
#include "tests/support/log_lines.h"
#include "tests/train/small_training.h"

namespace sectionflow::lent_batches {
namespace {

using namespace testing_support;
using testing::ElementsAre;
using testing::HasSubstr;

/// 150 examples in batches of 16, the last of 6, made ahead.
Dataset batches(int threads = 1, std::function<void(std::int64_t)> look = {}) {
  std::mt19937 words(5);
  HostTensor x(Dtype::f32, {150, 32}), label(Dtype::i32, {150});
  for (float& number : x.values<float>()) number = static_cast<float>(words() % 2001) / 1000.0F - 1.0F;
  for (std::int32_t& number : label.values<std::int32_t>()) number = static_cast<std::int32_t>(words() % 4);
  Example tensors;
  tensors.emplace("x", std::move(x));
  tensors.emplace("label", std::move(label));
  const auto shift = [look = std::move(look)](Example example, const MapContext& context) {
    if (look) look(context.index);
    for (float& number : example.at("x").values<float>()) number += context.uniform(0);
    return example;
  };
  return Dataset::from(std::move(tensors))
      .shuffle({.seed = 1})
      .map(MapFunction(shift, "shift"), {.threads = threads, .seed = 2})
      .batch({.size = 16})
      .prefetch();
}

enum class Way { whole, swaps, sections, tiers };
constexpr Way kWays[] = {Way::whole, Way::swaps, Way::sections, Way::tiers};

/// A model trained in one of these ways; sections may leave what crosses their borders on the host and on disk.
struct Training {
  explicit Training(Way way, SessionOptions options = {}) {
    const bool in_sections = way == Way::sections || way == Way::tiers;
    if (in_sections) manager.emplace(graph);
    const auto section = [&](BorderPolicy borders) -> std::optional<SectionScope> {
      if (!in_sections) return std::nullopt;
      return way == Way::tiers ? manager->new_section({}, {.borders = borders}) : manager->new_section();
    };
    x = placeholder(graph, "x", {kDynamic, 32});
    const Value label = placeholder(graph, "label", {kDynamic}, Dtype::i32);
    Value hidden = x, loss;
    for (const BorderPolicy borders : {BorderPolicy::host, BorderPolicy::disk}) {
      const auto scope = section(borders);
      hidden = dropout(batch_norm(dense(hidden, {.features = 32}), {.relu = true}), {.rate = 0.25F});
    }
    {
      const auto scope = section(BorderPolicy::keep);
      hidden = dense(hidden, {.features = 4});
      loss = mean(softmax_cross_entropy(hidden, label));
    }
    std::vector<Operation> operations;
    if (in_sections) {
      manager->add_training_ops(Adam{.learning_rate = 1e-2F}, loss);
      manager->prepare_training();
    } else {
      operations = minimize(Adam{.learning_rate = 1e-2F}, loss);
      for (const Operation& update : graph.operations(kUpdateOperations)) operations.push_back(update);
    }
    options.device_memory = 1_MiB;
    options.disk = 1_MiB;
    if (!options.lent_memory) options.lent_memory = 1_GiB;
    if (options.device.kind == DeviceKind::cpu) options.threads = 1;
    options.seed = 3;
    session.emplace(graph, options);
    session->initialize();
    if (way == Way::swaps) insert_swaps(*session);
    const TrainerOptions values{.loss = loss, .outputs = {{"logits", hidden}}};
    if (in_sections) {
      trainer.emplace(*session, *manager, values);
    } else {
      trainer.emplace(*session, operations, values);
    }
  }
  Training(const Training&) = delete;
  Training& operator=(const Training&) = delete;

  std::shared_ptr<LentMemory> memory() { return engine(*session).lent_memory(); }

  Graph graph;
  std::optional<GraphSectionManager> manager;
  Value x;
  std::optional<Session> session;
  std::optional<Trainer> trainer;
};

/// All that a training of two epochs with a validation leaves behind.
struct Outcome {
  std::map<std::string, HostTensor> variables;
  Example logits;
  Logs evaluation;
};

Outcome outcome_of(Training& training, int threads) {
  DatasetBatches source(batches(threads)), validation(batches());
  const History history =
      training.trainer->fit(source, {.epochs = 2, .validation = &validation, .validate_every_steps = 7});
  return {variables_of(*training.session), training.trainer->predict(validation), history.evaluation};
}

void expect_same(const Outcome& outcome, const Outcome& expected) {
  EXPECT_EQ(difference_of(outcome.variables, expected.variables), "");
  EXPECT_EQ(first_difference(outcome.logits.at("logits"), expected.logits.at("logits")), "");
  EXPECT_EQ(outcome.evaluation, expected.evaluation);
}

TEST(LentBatches, ChangeNoByteOfAnyStrategy) {
  Training whole(Way::whole, {.lent_memory = 0});
  const Outcome expected = outcome_of(whole, 1);
  for (const Way way : kWays) {
    // Of all, of some, and of none.
    for (const std::size_t lent : {1_MiB, 8_KiB, std::size_t{0}}) {
      SCOPED_TRACE(text_of("way ", static_cast<int>(way), ", lent ", lent));
      Training training(way, {.lent_memory = lent});
      expect_same(outcome_of(training, 3), expected);
      if (lent == 0) continue;
      const LentMemory::Figures figures = training.memory()->figures();
      EXPECT_GE(figures.lendings, lent == 1_MiB ? 100U : 10U);
      EXPECT_EQ(figures.lent_blocks, 0U) << "source and batches have ended";
      EXPECT_LE(figures.num_bytes, lent);
    }
  }
}

TEST(LentBatches, StayBelowHostMemoryBesideWhatIsOffloaded) {
  Training plain(Way::tiers, {.lent_memory = 0});
  DatasetBatches reference(batches());
  std::size_t peak = 0;
  Hooks look;
  look.step = [&](const TrainerState& state) {
    peak = std::max(peak, state.session.statistics().planned_host_peak_bytes);
  };
  plain.trainer->fit(reference, {.epochs = 2, .callbacks = {&look}});
  ASSERT_GT(peak, 0U);
  // Room for two blocks beside the programs. The first batches are made before there is one.
  const std::size_t host_memory = peak + 8_KiB;
  Training training(Way::tiers, {.host_memory = host_memory});
  DatasetBatches source(batches());
  int steps = 0;
  look.step = [&](const TrainerState& state) {
    ++steps;
    EXPECT_LE(training.memory()->figures().counted_bytes + state.session.statistics().planned_host_peak_bytes,
              host_memory);
  };
  training.trainer->fit(source, {.epochs = 2, .callbacks = {&look}});
  EXPECT_EQ(steps, 20);
  EXPECT_GT(training.memory()->figures().lendings, 10U) << "what is left is lent";
  EXPECT_EQ(difference_of(variables_of(*training.session), variables_of(*plain.session)), "");
}

TEST(LentBatches, SayOnceWhenHostMemoryIsTooSmall) {
  Training expected(Way::whole, {.lent_memory = 0});
  DatasetBatches reference(batches());
  expected.trainer->fit(reference, {.epochs = 1});
  const LogLines log;
  Training training(Way::whole, {.host_memory = 4095});
  DatasetBatches source(batches());
  training.trainer->fit(source, {.epochs = 1});
  EXPECT_THAT(log.lines, ElementsAre(AllOf(HasSubstr("memory of their own"), HasSubstr("host_memory"))));
  EXPECT_EQ(training.memory()->figures().num_blocks, 0U);
  EXPECT_EQ(difference_of(variables_of(*training.session), variables_of(*expected.session)), "");
}

TEST(LentBatches, GoBackWhereATrainingIsBrokenOff) {
  const auto look = [](std::int64_t index) {
    if (index == 100) throw std::domain_error("the map");
  };
  for (const bool by_map : {true, false}) {
    Training training(Way::sections);
    std::optional<DatasetBatches> source(batches(2, by_map ? look : std::function<void(std::int64_t)>()));
    Hooks hooks;
    hooks.step = [](const TrainerState& state) {
      if (state.step == 3) throw std::domain_error("the callback");
    };
    FitOptions options{.epochs = 1};
    if (!by_map) options.callbacks = {&hooks};
    EXPECT_THROW(training.trainer->fit(*source, options), std::domain_error);
    source.reset();
    const LentMemory::Figures figures = training.memory()->figures();
    EXPECT_GT(figures.lendings, 0U);
    EXPECT_EQ(figures.lent_blocks, 0U);
    training.memory()->drop_idle();
    EXPECT_EQ(training.memory()->figures().counted_bytes, 0U);
  }
}

TEST(LentBatches, StayReadableWhereTheSessionEndsFirstAndServeTheNextOne) {
  DatasetBatches source(batches(2)), reference(batches());
  Example kept;
  std::weak_ptr<LentMemory> memory;
  {
    Training training(Way::whole);
    training.trainer->fit(source, {.steps = 2});
    kept = *source.next();
    memory = training.memory();
    EXPECT_GE(training.memory()->figures().lent_blocks, kept.size());
  }
  ASSERT_FALSE(memory.expired()) << "its batches live";
  for (int i = 0; i < 2; ++i) (void)reference.next();
  EXPECT_TRUE(bitwise_equal(kept.at("x"), reference.next()->at("x")));
  // What is left of it is trained on, as it is, by a session that lends memory of its own.
  Training next(Way::sections), expected(Way::whole, {.lent_memory = 0});
  next.trainer->fit(source, {.epochs = 1});
  expected.trainer->fit(reference, {.epochs = 1});
  EXPECT_EQ(difference_of(variables_of(*next.session), variables_of(*expected.session)), "");
  EXPECT_GT(next.memory()->figures().lendings, 0U);
  kept.clear();
  EXPECT_TRUE(memory.expired()) << "the last of its batches has ended";
}

TEST(LentBatches, OfALoaderOfImagesAreLentToo) {
  const LabeledImages images = synthetic_mnist({.train_size = 64, .test_size = 10}).train;
  Graph graph;
  const Value image = placeholder(graph, "image", {kDynamic, 28, 28, 1});
  const Value label = placeholder(graph, "label", {kDynamic}, Dtype::i32);
  const Value loss = mean(softmax_cross_entropy(dense(flatten(image), {.features = 10}), label));
  const auto training = minimize(Adam{.learning_rate = 1e-2F}, loss);
  Session session(graph, {.device_memory = 4_MiB, .lent_memory = 1_GiB, .threads = 1});
  session.initialize();
  Trainer trainer(session, training, {.loss = loss});
  {
    ImageBatches source(images, {.batch = 8});
    trainer.fit(source, {.epochs = 2});
    (void)trainer.evaluate(source);
  }
  const LentMemory::Figures figures = engine(session).lent_memory()->figures();
  EXPECT_GT(figures.lendings, 20U);
  EXPECT_EQ(figures.lent_blocks, 0U);
}

TEST(LentBatches, OfThousandsTakeWhatAFewTake) {
  Training training(Way::tiers);
  const std::size_t before = training.memory()->figures().num_bytes;
  {
    DatasetBatches source(batches(2));
    training.trainer->fit(source, {.steps = 3000});
  }
  const LentMemory::Figures figures = training.memory()->figures();
  EXPECT_GT(figures.lendings, 5900U);
  // Two tensors each of what is made ahead, is being made, has been delivered and is trained on.
  EXPECT_LE(figures.blocks_made, 12U);
  EXPECT_EQ(figures.num_bytes, figures.blocks_made * 4_KiB) << "each is still there";
  EXPECT_EQ(figures.counted_bytes, figures.num_bytes);
  EXPECT_EQ(figures.lent_blocks, 0U);
  training.memory()->drop_idle();
  EXPECT_EQ(training.memory()->figures().num_bytes, before);
}

/// Trainings beside each other on random numbers of threads, broken off at random, on sources that outlive them.
TEST(LentBatches, GoBackWhateverTheSchedule) {
  for (unsigned seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE(text_of("seed ", seed));
    std::mt19937 random(seed);
    const auto pause = [](std::int64_t index) {
      if (index % 5 == 0) std::this_thread::sleep_for(std::chrono::microseconds(50));
    };
    DatasetBatches source(batches(1 + static_cast<int>(random() % 4), pause));
    std::weak_ptr<LentMemory> memory;
    for (int session = 0; session < 3; ++session) {
      Training training(kWays[random() % 4], {.lent_memory = random() % 3 == 0 ? 8_KiB : 64_KiB});
      const std::int64_t last = 1 + random() % 25;
      const bool fails = random() % 2 == 0;
      Hooks hooks;
      hooks.step = [&](const TrainerState& state) {
        if (state.step == last && fails) throw std::domain_error("broken off");
        if (state.step == last) state.stop("enough");
      };
      const FitOptions options{.steps = 30, .callbacks = {&hooks}};
      if (fails) {
        EXPECT_THROW(training.trainer->fit(source, options), std::domain_error);
      } else {
        training.trainer->fit(source, options);
      }
      memory = training.memory();
    }
    source.lend(nullptr);
    source.restore("");
    EXPECT_TRUE(memory.expired()) << "nobody has any of it";
  }
}

}  // namespace
}  // namespace sectionflow::lent_batches
