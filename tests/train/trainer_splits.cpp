// Trainings that limits, errors and restarts cut into fits: callbacks are told what one fit tells them.

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <random>
#include <stdexcept>

#include "sectionflow.h"

namespace sectionflow {
namespace {

/// The smallest training: a variable sums up what it is fed.
struct Summing {
  Summing() { session.initialize(); }
  Summing(const Summing&) = delete;
  Summing& operator=(const Summing&) = delete;

  Graph graph;
  Value x = placeholder(graph, "x", {kDynamic});
  Value sum = variable("sum", fill(graph, {}, 0));
  Operation add = assign_add(sum, reduce_sum(x) * 0.01F);
  Value loss = mean(x) + sum;
  Session session{graph, {.device_memory = 1_MiB, .threads = 1}};
  Trainer trainer{session, {add}, {.loss = loss}};
};

/// Fewer than 30 numbers in an order of each pass's own; of a filtered one nobody knows how long it is.
Dataset numbers(std::uint64_t seed, bool is_filtered) {
  std::mt19937_64 words(seed);
  const auto count = static_cast<std::int64_t>(7 + words() % 20), size = static_cast<std::int64_t>(1 + words() % 5);
  auto data = Dataset::generate("numbers", [count](std::int64_t index) -> std::optional<Example> {
    if (index >= count) return std::nullopt;
    Example example;
    example.emplace("x", HostTensor::scalar<float>(static_cast<float>(index % 17)));
    return example;
  });
  const auto keep = [](const Example& example) { return static_cast<int>(example.at("x").item<float>()) % 5 != 2; };
  if (is_filtered) data = data.filter(keep, "all but some");
  return data.shuffle({.seed = seed, .buffer_bytes = 800}).batch({.size = size});
}

/// Writes down what it is told, with all bits, and throws where it is to.
struct Recorder final : Callback {
  enum class Place { nowhere, step_begin, step, evaluation };
  explicit Recorder(std::vector<std::string>& lines) : told(lines) {}

  std::vector<std::string>& told;
  Place place = Place::nowhere;
  std::int64_t step_to_fail = 0;

  void fail_at(Place here, std::int64_t step) {
    if (here != place || step != step_to_fail) return;
    place = Place::nowhere;
    throw std::runtime_error("planted");
  }
  static std::string bits_of(const Logs& logs) {
    std::string text;
    for (const auto& [name, value] : logs) text += text_of(' ', name, ' ', std::bit_cast<std::uint64_t>(value));
    return text;
  }
  void on_step_begin(const TrainerState& state, Feeds&) override { fail_at(Place::step_begin, state.step + 1); }
  void on_step(const TrainerState& state) override {
    told.push_back(text_of("step ", state.step, " of epoch ", state.epoch, bits_of({{"loss", state.logs.at("loss")}})));
    fail_at(Place::step, state.step);
  }
  void on_evaluation(const TrainerState& state, const Logs& results) override {
    fail_at(Place::evaluation, state.step);
    told.push_back(text_of("evaluation at ", state.step, bits_of(results)));
  }
  void on_epoch(const TrainerState& state) override {
    told.push_back(text_of("epoch ", state.epoch, " of ", state.step_in_epoch, bits_of(state.logs)));
  }
};

FitOptions random_options(std::mt19937_64& words) {
  const auto below = [&](std::uint64_t end) { return static_cast<std::int64_t>(words() % end); };
  FitOptions options;
  options.max_epochs = 1 + below(4);
  if (below(2) == 1) options.max_steps = 1 + below(20);
  if (below(3) == 0) options.steps_per_epoch = 1 + below(6);
  options.validate_every = below(3);
  if (below(2) == 1) options.validate_every_steps = 1 + below(4);
  options.validation_steps = below(3);
  return options;
}

/// What a training keeps between two starts of its program.
struct Kept {
  std::string position{};
  HostTensor sum = HostTensor::scalar<float>(0);
};

/// One start of a program. Gives whether the training is complete.
bool start(std::uint64_t seed, bool is_filtered, FitOptions options, Recorder recorder, Kept& kept) {
  Summing program;
  program.session.write(program.sum, kept.sum);
  DatasetBatches source(numbers(seed, is_filtered)), validation(numbers(seed + 1, false));
  if (!kept.position.empty()) program.trainer.restore(kept.position);
  recorder.step_to_fail += program.trainer.step();
  options.validation = &validation;
  options.callbacks = {&recorder};
  bool is_complete = false;
  try {
    const History history = program.trainer.fit(source, options);
    is_complete = options.steps == 0 || history.steps < options.steps;
  } catch (const std::runtime_error&) {
  }
  kept = {program.trainer.position(), program.session.read(program.sum)};
  return is_complete;
}

/// Cuts trainings of the seeds [first, end), and gives the starts that it took.
int expect_no_difference(std::uint64_t first, std::uint64_t end) {
  using Place = Recorder::Place;
  int num_starts = 0;
  for (std::uint64_t seed = first; seed < end; ++seed) {
    SCOPED_TRACE(text_of("seed ", seed));
    std::mt19937_64 words(seed);
    const bool is_filtered = words() % 2 == 1;
    const FitOptions options = random_options(words);
    std::vector<std::string> whole, parts;
    Kept of_whole, of_parts;
    EXPECT_TRUE(start(seed, is_filtered, options, Recorder(whole), of_whole));
    for (bool is_complete = false; !is_complete; ++num_starts) {
      FitOptions part = options;
      Recorder recorder(parts);
      const std::uint64_t kind = words() % 3;
      if (kind == 0) part.steps = static_cast<std::int64_t>(1 + words() % 4);
      if (kind == 1) {
        recorder.place = std::array{Place::step_begin, Place::step, Place::evaluation}[words() % 3];
        recorder.step_to_fail = static_cast<std::int64_t>(1 + words() % 3);
      }
      is_complete = start(seed, is_filtered, part, recorder, of_parts);
    }
    EXPECT_EQ(parts, whole);
    EXPECT_EQ(of_parts.position, of_whole.position);
    EXPECT_TRUE(bitwise_equal(of_parts.sum, of_whole.sum));
  }
  return num_starts;
}

TEST(TrainerSplits, TellCallbacksWhatOneFitTellsThem) {
  EXPECT_GT(expect_no_difference(0, 150), 300);
}

TEST(ManyTrainerSplits, TellCallbacksWhatOneFitTellsThem) {
  EXPECT_GT(expect_no_difference(150, 5000), 9000);
}

}  // namespace
}  // namespace sectionflow
