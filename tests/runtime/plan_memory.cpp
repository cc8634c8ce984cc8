#include "runtime/plan_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"

namespace sectionflow {
namespace {

using Storages = std::vector<Storage>;

Storage storage(std::size_t bytes, StepIndex first, StepIndex last) {
  return {bytes, {first, last}, std::nullopt};
}
Storage fixed(std::size_t bytes, StepIndex first, StepIndex last, std::size_t offset) {
  return {bytes, {first, last}, offset};
}

// What a plan must hold whatever its quality, by comparing all pairs.
void expect_sound(const Storages& storages, const MemoryPlan& plan) {
  ASSERT_EQ(plan.offsets.size(), storages.size());
  std::size_t peak = 0;
  for (std::size_t i = 0; i < storages.size(); ++i) {
    const Storage& a = storages[i];
    const std::size_t end = plan.offsets[i] + a.bytes;
    peak = std::max(peak, end);
    ASSERT_EQ(plan.offsets[i] % kBufferAlignment, 0u) << "storage " << i;
    if (a.bytes == 0) {
      ASSERT_EQ(plan.offsets[i], 0u) << "storage " << i;
      continue;
    }
    if (a.fixed_offset) {
      ASSERT_EQ(plan.offsets[i], *a.fixed_offset) << "storage " << i;
    }
    for (std::size_t j = 0; j < i; ++j) {
      const Storage& b = storages[j];
      const bool both_live = a.life.first <= b.life.last && b.life.first <= a.life.last;
      const bool share = plan.offsets[j] < end && plan.offsets[i] < plan.offsets[j] + b.bytes;
      ASSERT_FALSE(both_live && share && b.bytes > 0) << "storages " << j << " and " << i << " share bytes";
    }
  }
  EXPECT_EQ(plan.peak_bytes, peak);
}

struct FullestStep {
  std::size_t bytes = 0;
  StepIndex step = 0;
};

// Sums the live bytes at each step at which something begins or ends.
FullestStep fullest_step(const Storages& storages) {
  std::map<std::int64_t, std::int64_t> change;
  for (const Storage& s : storages) {
    const auto rounded = static_cast<std::int64_t>((s.bytes + 255) / 256 * 256);
    change[s.life.first] += rounded;
    change[std::int64_t{s.life.last} + 1] -= rounded;
  }
  FullestStep fullest;
  std::int64_t live = 0;
  for (const auto& [step, bytes] : change) {
    live += bytes;
    if (live > static_cast<std::int64_t>(fullest.bytes)) {
      fullest = {static_cast<std::size_t>(live), static_cast<StepIndex>(step)};
    }
  }
  return fullest;
}

MemoryPlan checked_plan(const Storages& storages) {
  const MemoryPlan plan = plan_memory(storages);
  expect_sound(storages, plan);
  const FullestStep fullest = fullest_step(storages);
  EXPECT_EQ(plan.lower_bound_bytes, fullest.bytes);
  EXPECT_EQ(plan.fullest_step, fullest.step);
  return plan;
}

double gap_percent(const MemoryPlan& plan) {
  const auto peak = static_cast<double>(round_up(plan.peak_bytes));
  return 100 * (peak / static_cast<double>(plan.lower_bound_bytes) - 1);
}

std::string error_text(const Storages& storages) {
  try {
    plan_memory(storages);
  } catch (const ArgumentError& error) {
    return error.what();
  }
  return "no ArgumentError";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Random numbers that are the same with every standard library.
class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  int from_to(int least, int most) { return least + static_cast<int>(engine_() % (most - least + 1)); }
  double uniform() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }
  double log_uniform(double least, double most) { return least * std::pow(most / least, uniform()); }

 private:
  std::mt19937_64 engine_;
};

enum class Lives { uniform, short_mostly, nested, mixed };
enum class Sizes { uniform, heavy_tail, equal };

struct Kind {
  const char* name;
  Lives lives;
  Sizes sizes;
};

constexpr Kind kKinds[] = {
    {"uniform lives, uniform sizes", Lives::uniform, Sizes::uniform},
    {"uniform lives, 1 B to 1 GiB", Lives::uniform, Sizes::heavy_tail},
    {"uniform lives, equal sizes", Lives::uniform, Sizes::equal},
    {"mostly short, uniform sizes", Lives::short_mostly, Sizes::uniform},
    {"mostly short, 1 B to 1 GiB", Lives::short_mostly, Sizes::heavy_tail},
    {"mostly short, equal sizes", Lives::short_mostly, Sizes::equal},
    {"nested, uniform sizes", Lives::nested, Sizes::uniform},
    {"nested, 1 B to 1 GiB", Lives::nested, Sizes::heavy_tail},
    {"mixed lengths, uniform sizes", Lives::mixed, Sizes::uniform},
    {"mixed lengths, 1 B to 1 GiB", Lives::mixed, Sizes::heavy_tail},
};

Life random_life(Lives lives, int num_steps, Random& random) {
  const int begin = random.from_to(0, num_steps - 1);
  int other = 0;
  switch (lives) {
    case Lives::uniform:
      other = random.from_to(0, num_steps - 1);
      break;
    case Lives::short_mostly:
      other = begin + random.from_to(0, random.from_to(0, 9) == 0 ? num_steps / 4 : 19);
      break;
    case Lives::nested:
      other = random.from_to(0, 2) == 0 ? begin + random.from_to(0, 3) : num_steps - 1 - begin + random.from_to(-3, 3);
      break;
    case Lives::mixed:
      other = begin + static_cast<int>(random.log_uniform(1, num_steps));
      break;
  }
  other = std::clamp(other, 0, num_steps - 1);
  return {std::min(begin, other), std::max(begin, other)};
}

std::size_t random_bytes(Sizes sizes, Random& random) {
  switch (sizes) {
    case Sizes::uniform:
      return static_cast<std::size_t>(random.from_to(1, 1 << 20));
    case Sizes::heavy_tail:
      return static_cast<std::size_t>(random.log_uniform(1, 1 << 30));
    case Sizes::equal:
      break;
  }
  return 1 << 16;
}

Storages random_schedule(const Kind& kind, int num_storages, Random& random) {
  const int num_steps = std::max(4, num_storages);
  Storages storages;
  for (int i = 0; i < num_storages; ++i) {
    storages.push_back({random_bytes(kind.sizes, random), random_life(kind.lives, num_steps, random), std::nullopt});
  }
  return storages;
}

struct Layer {
  std::size_t output_bytes;
  std::size_t workspace_bytes;
  bool in_place;  // writes over its input, whose storage lives on
  bool skips;     // its input is also added three layers later
};

// Bottleneck blocks of convolution, normalisation and relu, channels growing while images shrink.
std::vector<Layer> residual_network(std::size_t batch) {
  std::vector<Layer> layers = {{batch * 112 * 112 * 64 * 4, 8_MiB, false, false}};
  const int blocks_of_stage[] = {3, 4, 6, 3};
  std::size_t side = 56;
  std::size_t channels = 64;
  for (const int num_blocks : blocks_of_stage) {
    for (int block = 0; block < num_blocks; ++block) {
      const std::size_t narrow = batch * side * side * channels * 4;
      layers.push_back({narrow, 3_MiB + channels, false, true});
      layers.push_back({narrow, 0, true, false});
      layers.push_back({narrow, 17_MiB + 100 * channels, false, false});
      layers.push_back({narrow, channels * 8, false, false});
      layers.push_back({4 * narrow, 5_MiB, false, false});
      layers.push_back({4 * narrow, 0, true, false});
    }
    side /= 2;
    channels *= 2;
  }
  layers.push_back({batch * 1000 * 4, 0, false, false});
  return layers;
}

// Appends a forward pass over layers [begin, end) from `step` on; each value lives to the backward step of its reader.
void append_forward(const std::vector<Layer>& layers, int begin, int end, StepIndex step, StepIndex backward_end,
                    Storages& storages) {
  for (int layer = begin; layer < end; ++layer, ++step) {
    const auto& [output_bytes, workspace_bytes, in_place, skips] = layers[layer];
    if (!in_place) {
      storages.push_back(storage(output_bytes, step, backward_end - 2 * (layer - begin)));
    }
    storages.push_back(storage(workspace_bytes, step, step));
    storages.push_back(storage(output_bytes / 4096 + 4, step, backward_end - 2 * (layer - begin)));  // saved statistics
  }
}

// Gradients of the values of layers [begin, end), two steps a layer, the last layer first.
void append_backward(const std::vector<Layer>& layers, int begin, int end, StepIndex backward_end, Storages& storages) {
  for (int layer = begin; layer < end; ++layer) {
    const auto& [output_bytes, workspace_bytes, in_place, skips] = layers[layer];
    const StepIndex step = backward_end - 2 * (layer - begin);
    storages.push_back(storage(output_bytes, step - 1, step + (skips ? 7 : 1)));
    storages.push_back(storage(workspace_bytes * 2, step, step));
    storages.push_back(storage(workspace_bytes / 3, step, step + 1));  // gradient of the filter, until its update
  }
}

Storages training_schedule(std::size_t batch) {
  const std::vector<Layer> layers = residual_network(batch);
  const int num_layers = static_cast<int>(layers.size());
  Storages storages;
  append_forward(layers, 0, num_layers, 0, 3 * num_layers, storages);
  append_backward(layers, 0, num_layers, 3 * num_layers, storages);
  return storages;
}

// The first forward pass keeps only what crosses a section's border; each section is then run forward again.
Storages sectioned_schedule(std::size_t batch, int layers_a_section) {
  const std::vector<Layer> layers = residual_network(batch);
  const int num_layers = static_cast<int>(layers.size());
  const int num_sections = (num_layers + layers_a_section - 1) / layers_a_section;
  Storages storages;
  for (int layer = 0; layer < num_layers; ++layer) {
    const int section = layer / layers_a_section;
    const bool border = (layer + 1) % layers_a_section == 0;
    const StepIndex border_end = num_layers + 4 * layers_a_section * (num_sections - section);
    storages.push_back(storage(layers[layer].output_bytes, layer, border ? border_end : layer + 1));
    storages.push_back(storage(layers[layer].workspace_bytes, layer, layer));
  }
  for (int section = num_sections - 1; section >= 0; --section) {
    const int begin = section * layers_a_section;
    const int end = std::min(num_layers, begin + layers_a_section);
    const StepIndex step = num_layers + 4 * layers_a_section * (num_sections - 1 - section);
    const StepIndex backward_end = step + 3 * layers_a_section;
    append_forward(layers, begin, end, step, backward_end, storages);
    append_backward(layers, begin, end, backward_end, storages);
  }
  return storages;
}

TEST(PlanMemory, NothingNeedsNothing) {
  const MemoryPlan plan = checked_plan({});
  EXPECT_EQ(plan.peak_bytes, 0u);
  EXPECT_EQ(plan.lower_bound_bytes, 0u);
}

TEST(PlanMemory, ZeroBytesLieAtZero) {
  const MemoryPlan plan = checked_plan({storage(0, 0, 9), storage(1000, 2, 5), storage(0, 3, 4), fixed(0, 1, 2, 512)});
  EXPECT_EQ(plan.offsets, (std::vector<std::size_t>{0, 0, 0, 0}));
  EXPECT_EQ(checked_plan({storage(0, 3, 4)}).peak_bytes, 0u);
}

TEST(PlanMemory, PeakIsToTheByteAndBoundIsRounded) {
  const MemoryPlan plan = checked_plan({storage(1000, 7, 7)});
  EXPECT_EQ(plan.peak_bytes, 1000u);
  EXPECT_EQ(plan.lower_bound_bytes, 1024u);
  EXPECT_EQ(plan.fullest_step, 7);
}

TEST(PlanMemory, EndsOfLivesAreInclusive) {
  EXPECT_EQ(checked_plan({storage(256, 0, 3), storage(256, 3, 5)}).peak_bytes, 512u);
  EXPECT_EQ(checked_plan({storage(256, 0, 3), storage(256, 4, 5)}).peak_bytes, 256u);
}

TEST(PlanMemory, FarStepsCostNothing) {
  constexpr StepIndex kFar = std::numeric_limits<StepIndex>::max();
  const MemoryPlan plan = checked_plan({storage(256, 0, kFar), storage(256, 100'000, 200'000), storage(256, kFar, kFar),
                                        storage(256, kFar - 5, kFar - 1)});
  EXPECT_EQ(plan.peak_bytes, 512u);
  EXPECT_EQ(plan.fullest_step, 100'000);
}

TEST(PlanMemory, LiveBuffersNeverOverlap) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    for (const Kind& kind : kKinds) {
      SCOPED_TRACE(kind.name);
      Storages storages = random_schedule(kind, random.from_to(1, 60), random);
      storages[random.from_to(0, static_cast<int>(storages.size()) - 1)].bytes = 0;
      checked_plan(storages);
    }
  }
}

/// Begins and ends of lives that a seed is to see: 40,000, or what SECTIONFLOW_PROPERTY_OPERATIONS says (10,000,000 for
/// a night).
long property_operations() {
  const char* wanted = std::getenv("SECTIONFLOW_PROPERTY_OPERATIONS");
  return wanted == nullptr ? 40'000 : std::atol(wanted);
}

TEST(PlanMemory, TenSeedsOfAwkwardSizesAreSoundAndNeverHigherThanTheSum) {
  long operations = 0;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(1000 + seed);
    for (long done = 0; done < property_operations();) {
      const int count = random.from_to(1, 200), last = random.from_to(0, 400);
      Storages storages;
      std::size_t sum = 0;
      for (int i = 0; i < count; ++i) {
        // Around the powers of two, where rounding goes wrong, and now and then nothing at all.
        const int power = random.from_to(0, 30);
        std::size_t bytes = (std::size_t{1} << power) + static_cast<std::size_t>(random.from_to(0, 2));
        bytes = random.from_to(0, 9) == 0 ? 0 : bytes - 1;
        const StepIndex first = random.from_to(0, last);
        storages.push_back(storage(bytes, first, random.from_to(first, last)));
        sum += (bytes + 255) / 256 * 256;
      }
      const MemoryPlan plan = checked_plan(storages);
      ASSERT_LE(plan.peak_bytes, sum);
      ASSERT_FALSE(HasFailure());
      done += 2 * count;
      operations += 2 * count;
    }
  }
  std::cout << operations << " begins and ends of lives\n";
}

TEST(PlanMemory, FixedOffsetsAreKept) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    for (const Kind& kind : kKinds) {
      SCOPED_TRACE(kind.name);
      // Places of an earlier plan, some far apart, are never in each other's way.
      Storages storages = random_schedule(kind, random.from_to(2, 40), random);
      const MemoryPlan earlier = plan_memory(storages);
      const std::size_t shift = 256 * static_cast<std::size_t>(random.from_to(0, 1000));
      for (std::size_t i = 0; i < storages.size(); i += 3) {
        storages[i].fixed_offset = earlier.offsets[i] + shift;
      }
      checked_plan(storages);
    }
  }
}

TEST(PlanMemory, RoomBelowAndBetweenFixedOffsetsIsUsed) {
  const MemoryPlan plan = checked_plan(
      {fixed(512, 0, 9, 512), fixed(256, 0, 9, 1280), storage(200, 0, 9), storage(256, 2, 5), storage(256, 3, 9)});
  EXPECT_EQ(plan.peak_bytes, 1536u);
  EXPECT_EQ(plan.lower_bound_bytes, 1536u);
}

TEST(PlanMemory, AllMayBeFixed) {
  const MemoryPlan plan = checked_plan({fixed(300, 0, 4, 256), fixed(300, 5, 9, 256), fixed(256, 0, 9, 0)});
  EXPECT_EQ(plan.peak_bytes, 556u);
}

TEST(PlanMemory, ParametersFixedAtTheBottomCostNothing) {
  Storages storages = training_schedule(8);
  storages.push_back(fixed(100_MiB, 0, 100'000, 0));
  storages.push_back(fixed(200_MiB, 0, 100'000, 100_MiB));
  EXPECT_LE(gap_percent(checked_plan(storages)), 2);
}

TEST(PlanMemory, LifeThatEndsBeforeItBeginsIsRefused) {
  const std::string text = error_text({storage(1, 0, 1), storage(1, 7, 6)});
  EXPECT_TRUE(contains(text, "storage 1 lives from step 7 to step 6")) << text;
}

TEST(PlanMemory, FixedStoragesThatShareBytesAreRefused) {
  const std::string text = error_text({fixed(1000, 0, 5, 256), storage(64, 0, 9), fixed(100, 5, 6, 1024)});
  EXPECT_TRUE(contains(text, "storage 0 (1000 bytes fixed at offset 256, steps 0 to 5)")) << text;
  EXPECT_TRUE(contains(text, "storage 2 (100 bytes fixed at offset 1024, steps 5 to 6)")) << text;
  EXPECT_NO_THROW(plan_memory(Storages{fixed(1000, 0, 5, 256), fixed(100, 6, 6, 1024)}));
  EXPECT_NO_THROW(plan_memory(Storages{fixed(1000, 0, 5, 256), fixed(100, 5, 6, 1280)}));
}

TEST(PlanMemory, FixedOffsetThatIsNotAlignedIsRefused) {
  const std::string text = error_text({fixed(1, 0, 1, 100)});
  EXPECT_TRUE(contains(text, "storage 0 is fixed at offset 100; wanted a multiple of 256")) << text;
}

TEST(PlanMemory, SumBeyondTheAddressSpaceIsRefused) {
  constexpr std::size_t kHalf = std::size_t{1} << 62;
  EXPECT_TRUE(contains(error_text({storage(kHalf, 0, 1), storage(kHalf, 2, 3)}), "2^63 - 1"));
  EXPECT_TRUE(contains(error_text({storage(~std::size_t{0}, 0, 1)}), "2^63 - 1"));
  EXPECT_TRUE(contains(error_text({storage(1, 0, 1), fixed(1, 0, 1, kHalf * 2 - 256)}), "2^63 - 1"));
  EXPECT_TRUE(contains(error_text({fixed(1, 0, 1, kHalf * 2)}), "2^63 - 1"));
  EXPECT_EQ(checked_plan({storage(kHalf, 0, 1), storage(kHalf - 512, 1, 3)}).peak_bytes, 2 * kHalf - 512);
}

TEST(PlanMemory, SameArgumentsGiveTheSamePlan) {
  for (const Kind& kind : kKinds) {
    Random random(5);
    const Storages storages = random_schedule(kind, 150, random);
    const Storages copy = storages;
    EXPECT_EQ(plan_memory(storages).offsets, plan_memory(copy).offsets) << kind.name;
  }
}

TEST(PlanMemory, OnlyTheOrderOfStepsMatters) {
  for (const Kind& kind : kKinds) {
    Random random(6);
    const Storages storages = random_schedule(kind, 100, random);
    Storages sparse = storages;
    for (Storage& s : sparse) {
      s.life = {s.life.first * 1000 - 50, s.life.last * 1000 - 50};
    }
    EXPECT_EQ(plan_memory(storages).offsets, plan_memory(sparse).offsets) << kind.name;
  }
}

TEST(PlanMemory, RandomSchedulesComeCloseToTheBound) {
  for (const Kind& kind : kKinds) {
    std::vector<double> gaps;
    std::uint64_t worst_seed = 0;
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
      Random random(seed);
      const int num_storages = static_cast<int>(random.log_uniform(8, 250));
      const double gap = gap_percent(checked_plan(random_schedule(kind, num_storages, random)));
      if (gaps.empty() || gap > *std::max_element(gaps.begin(), gaps.end())) {
        worst_seed = seed;
      }
      gaps.push_back(gap);
    }
    std::sort(gaps.begin(), gaps.end());
    const auto exact = std::upper_bound(gaps.begin(), gaps.end(), 0.0) - gaps.begin();
    std::cout << kind.name << ": above the bound by " << gaps[gaps.size() / 2] << " % in the median, " << gaps.back()
              << " % at worst (seed " << worst_seed << "), exact in " << exact << " of " << gaps.size() << "\n";
    EXPECT_LE(gaps[gaps.size() / 2], 2) << kind.name;
    EXPECT_LE(gaps.back(), 10) << kind.name << ", seed " << worst_seed;
  }
}

TEST(PlanMemory, TrainingSchedulesComeWithinTwoPercent) {
  for (const std::size_t batch : {1, 2, 7, 32, 256}) {
    const double gap = gap_percent(checked_plan(training_schedule(batch)));
    std::cout << "residual network, batch " << batch << ": above the bound by " << gap << " %\n";
    EXPECT_LE(gap, 2) << "batch " << batch;
  }
}

TEST(PlanMemory, SectionedSchedulesComeWithinTwoPercent) {
  for (const std::size_t batch : {1, 32}) {
    for (const int layers_a_section : {3, 6, 10, 17, 40}) {
      const double gap = gap_percent(checked_plan(sectioned_schedule(batch, layers_a_section)));
      std::cout << "batch " << batch << ", sections of " << layers_a_section << ": above the bound by " << gap
                << " %\n";
      EXPECT_LE(gap, 2) << "batch " << batch << ", sections of " << layers_a_section;
    }
  }
}

TEST(PlanMemory, TenThousandStoragesAreQuick) {
  for (const Kind& kind : kKinds) {
    Random random(1);
    const Storages storages = random_schedule(kind, 10'000, random);
    const auto start = std::chrono::steady_clock::now();
    const MemoryPlan plan = plan_memory(storages);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    std::cout << kind.name << ": " << seconds.count() << " s, above the bound by " << gap_percent(plan) << " %\n";
    expect_sound(storages, plan);
    EXPECT_EQ(plan.lower_bound_bytes, fullest_step(storages).bytes);
    EXPECT_LE(gap_percent(plan), 10) << kind.name;
    EXPECT_LE(seconds.count(), 20) << kind.name;
  }
}

}  // namespace
}  // namespace sectionflow
