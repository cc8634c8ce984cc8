// A long training with all that may pile up: tensors in every tier, checkpoints, curves, tables. What the process holds
// is the same after many cycles as after a few.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>

#include "sectionflow.h"
#include "tests/support/sanitized.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/small_training.h"

namespace sectionflow {
namespace {

namespace fs = std::filesystem;
using testing_support::Hooks;

/// What a process holds that nobody gives back by itself.
struct Holdings {
  std::size_t resident_bytes = 0;
  std::size_t descriptors = 0, threads = 0;
  std::size_t nameless_bytes = 0;  // of open files without a name, which the disk tier is
};

std::size_t entries_of(const char* folder) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), {}));
}

Holdings holdings() {
  Holdings held;
  std::size_t pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  held.resident_bytes = resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  held.descriptors = entries_of("/proc/self/fd");
  held.threads = entries_of("/proc/self/task");
  for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
    struct stat about {};
    const bool is_nameless = stat(entry.path().c_str(), &about) == 0 && S_ISREG(about.st_mode) && about.st_nlink == 0;
    if (is_nameless) held.nameless_bytes += static_cast<std::size_t>(about.st_size);
  }
  return held;
}

/// Three sections, of which one leaves its result in host memory and one on disk until the backward pass.
struct TieredModel {
  TieredModel() {
    x = placeholder(graph, "x", {kDynamic, 32});
    label = placeholder(graph, "label", {kDynamic}, Dtype::i32);
    rate = placeholder(graph, "rate", {});
    Value hidden = x;
    for (const BorderPolicy borders : {BorderPolicy::host, BorderPolicy::disk}) {
      const auto scope = manager.new_section({}, {.borders = borders});
      hidden = dropout(batch_norm(dense(hidden, {.features = 32}), {.relu = true}), {.rate = 0.25F});
    }
    {
      const auto scope = manager.new_section();
      loss = mean(softmax_cross_entropy(dense(hidden, {.features = 4}), label));
    }
    manager.add_training_ops(Adam{.learning_rate = rate}, loss, {.summaries = true});
    manager.prepare_training();
  }

  Graph graph;
  GraphSectionManager manager{graph};
  Value x, label, rate, loss;
};

std::optional<Example> batch_of(std::int64_t pass, std::int64_t batch) {
  if (batch >= 100) return std::nullopt;
  constexpr std::int64_t kBatch = 64;
  HostTensor x(Dtype::f32, {kBatch, 32}), label(Dtype::i32, {kBatch});
  std::uint32_t word = static_cast<std::uint32_t>(pass * 100 + batch + 1);
  const auto next = [&word] { return (word = word * 1664525 + 1013904223) >> 8; };
  for (float& number : x.values<float>()) number = static_cast<float>(next() % 2001) / 1000.0F - 1.0F;
  for (std::int32_t& number : label.values<std::int32_t>()) number = static_cast<std::int32_t>(next() % 4);
  Example example;
  example.emplace("x", std::move(x));
  example.emplace("label", std::move(label));
  return example;
}

/// Trains so many cycles and looks at what is held every hundredth of them, from the tenth part on.
void expect_nothing_piles_up(std::int64_t cycles) {
  const TemporaryFolder folder;
  TieredModel model;
  Session session(model.graph, {.device_memory = 1_MiB, .host_memory = 1_MiB, .disk = 1_MiB, .threads = 1, .seed = 3});
  session.initialize();
  Trainer trainer(session, model.manager, {.loss = model.loss});
  FunctionBatches batches(batch_of);

  LearningRate rate(model.rate, constant_rate(1e-3));
  FiniteCheck finite;
  TensorBoard board((folder.path() / "board").string(), {.every_steps = 50, .histogram_steps = 500});
  StatisticsCsv table((folder.path() / "steps.csv").string());
  Checkpoints checkpoints(folder.path() / "checkpoints", {.keep = 2, .asynchronous = true});
  CheckpointCallback saving(checkpoints, {.every_steps = cycles / 50});

  const std::int64_t part = cycles / 100;
  Holdings first, last;
  Hooks look;
  look.step = [&](const TrainerState& state) {
    // Half a part away from the checkpoints, whose writer has a file of its own.
    if (state.step % part != part / 2 || state.step < 10 * part) return;
    checkpoints.wait();
    last = holdings();
    if (first.descriptors == 0) {
      first = last;
      EXPECT_GT(first.nameless_bytes, 0U) << "nothing is on disk";
      return;
    }
    EXPECT_EQ(last.descriptors, first.descriptors) << "step " << state.step;
    EXPECT_EQ(last.threads, first.threads) << "step " << state.step;
    EXPECT_EQ(last.nameless_bytes, first.nameless_bytes) << "step " << state.step;
    // A sanitizer keeps what is freed.
    if (!testing_support::kIsSanitized) {
      EXPECT_LE(last.resident_bytes, first.resident_bytes + 1_MiB) << "step " << state.step;
    }
  };
  trainer.fit(batches, {.max_steps = cycles, .callbacks = {&rate, &finite, &board, &table, &saving, &look}});

  EXPECT_EQ(trainer.step(), cycles);
  EXPECT_GT(last.descriptors, 0U);
  EXPECT_EQ(checkpoints.statistics().failures, 0);
  EXPECT_EQ(board.failures(), 0);
  EXPECT_EQ(entries_of((folder.path() / "checkpoints").c_str()), 3U);  // two of them, and which is the latest
  testing::Test::RecordProperty("resident_growth", static_cast<int>(last.resident_bytes - first.resident_bytes));
}

TEST(Soak, TwoThousandCyclesTakeNothingForGood) {
  expect_nothing_piles_up(2000);
}

TEST(LongSoak, AHundredThousandCyclesTakeNothingForGood) {
  expect_nothing_piles_up(100'000);
}

}  // namespace
}  // namespace sectionflow
