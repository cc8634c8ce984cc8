// Borders that are placed by themselves, beside sections of equal numbers of operations that scopes open by hand.

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "graph/ops/arithmetic.h"
#include "graph/ops/dropout.h"
#include "graph/ops/pool.h"
#include "sections/forward_places.h"
#include "tests/sections/image_nets.h"
#include "tests/support/dice.h"

namespace sectionflow::testing {
namespace {

/// Adds one operation, which reads the last of what was made, and may read others.
using Addition = std::function<Value(const Inputs& in, const std::vector<Value>& made)>;

/// The sum with something of the same shape that was made before, or twice the last where nothing was.
Addition sum_with(std::size_t pick) {
  return [=](const Inputs&, const std::vector<Value>& made) {
    std::vector<Value> like;
    for (const Value& value : made) {
      if (value.shape() == made.back().shape()) like.push_back(value);
    }
    return made.back() + like[pick % like.size()];
  };
}

Addition random_addition(Dice& dice) {
  const std::int64_t kind = dice.between(1, 10), channels = 4 * dice.between(1, 6);
  switch (kind) {
    case 1:
    case 2:
      return [=](const Inputs&, const auto& made) { return conv2d(made.back(), {.features = channels, .kernel = 1}); };
    case 3:
    case 4:
      return [=](const Inputs&, const auto& made) { return conv2d(made.back(), {.features = channels}); };
    case 5:
      return [](const Inputs&, const auto& made) { return tanh(made.back()); };
    case 6:
      return [](const Inputs& in, const auto& made) { return dropout(made.back(), in.is_training, {.rate = 0.2F}); };
    case 7:
      return
          [](const Inputs& in, const auto& made) { return batch_norm(made.back(), in.is_training, {.decay = 0.9F}); };
    case 8:
      return [](const Inputs&, const auto& made) {
        return max_pool2d(made.back(), {.window = 3, .stride = 1, .padding = SpatialPadding<2>::same});
      };
    default:
      return sum_with(static_cast<std::size_t>(dice.between(0, 1000)));
  }
}

/// A network as a row of operations, so that whoever builds it may open a section before any of them.
std::vector<Addition> random_row(std::uint64_t seed) {
  Dice dice(seed + 8'000'000);
  std::vector<Addition> row;
  for (std::int64_t count = dice.between(12, 40); count > 0; --count) row.push_back(random_addition(dice));
  row.emplace_back([](const Inputs&, const auto& made) { return reduce_mean(made.back(), {.axes = {1, 2}}); });
  row.emplace_back(
      [](const Inputs&, const auto& made) { return dense(made.back(), {.features = kClasses, .bias = false}); });
  row.emplace_back([](const Inputs& in, const auto& made) { return softmax_cross_entropy(made.back(), in.labels); });
  row.emplace_back([](const Inputs&, const auto& made) { return mean(made.back()); });
  return row;
}

/// The network in so many sections of as many operations each, or one more; 0: in none.
Value built(const std::vector<Addition>& row, const Inputs& in, GraphSectionManager& manager, std::size_t sections) {
  std::vector<Value> made = {in.images};
  std::optional<SectionScope> section;
  for (std::size_t i = 0, opened = 0; i < row.size(); ++i) {
    if (opened < sections && i == opened * row.size() / sections) {
      section.reset();
      section.emplace(manager.new_section());
      ++opened;
    }
    made.push_back(row[i](in, made));
  }
  return made.back();
}

/// A cycle of the network in so many equal parts by hand, or in what `cuts` places. With a budget borders may leave the
/// device, and the seconds are told.
ProgramReport planned(const std::vector<Addition>& row, std::size_t by_hand,
                      const std::optional<PlaceCutsOptions>& cuts, std::optional<std::size_t> device_memory = {}) {
  Graph graph;
  GraphSectionManager manager(graph);
  const Inputs in(graph);
  const Value loss = built(row, in, manager, by_hand);
  EXPECT_EQ(forward_places(graph, loss).operations.size(), row.size()) << "one operation each";
  if (cuts) manager.place_cuts(*cuts);
  const SectionOptions sections{.borders = device_memory ? BorderPolicy::automatic : BorderPolicy::keep};
  manager.add_training_ops(Adam{.learning_rate = 1e-2F}, loss, {.sections = sections});
  manager.prepare_training();
  Session session(graph, {.device_memory = device_memory.value_or(1_GiB), .threads = 1});
  FeedStore store;
  return manager.plan(session, {loss}, types_of(in.feeds()(0, store)));
}

PlaceCutsOptions cuts_of(std::size_t sections) {
  PlaceCutsOptions options;
  options.sections = static_cast<int>(sections);
  options.batch = kBatch;
  options.session.threads = 1;
  return options;
}
PlaceCutsOptions cuts_within(std::size_t device_memory) {
  PlaceCutsOptions options = cuts_of(0);
  options.session.device_memory = device_memory;
  options.may_swap = false;
  return options;
}

constexpr std::size_t kSections[] = {1, 2, 3, 5, 9};

void expect_as_low_as_equal_parts(std::uint64_t first, std::uint64_t last) {
  std::uint64_t lower = 0;
  for (std::uint64_t seed = first; seed <= last; ++seed) {
    const std::vector<Addition> row = random_row(seed);
    for (const std::size_t sections : kSections) {
      const std::size_t equal = planned(row, sections, {}).planned_peak_bytes;
      const std::size_t found = planned(row, 0, cuts_of(sections)).planned_peak_bytes;
      EXPECT_LE(found, equal) << "seed " << seed << ", " << sections << " sections of " << row.size() << " operations";
      lower += found < equal ? 1 : 0;
    }
  }
  EXPECT_GT(lower, last - first) << "shows nothing";
}

void expect_as_quick_as_equal_parts(std::uint64_t first, std::uint64_t last) {
  std::uint64_t quicker = 0;
  for (std::uint64_t seed = first; seed <= last; ++seed) {
    const std::vector<Addition> row = random_row(seed);
    for (const std::size_t sections : kSections) {
      SCOPED_TRACE(text_of("seed ", seed, ", ", sections, " sections of ", row.size(), " operations"));
      const std::size_t budget = planned(row, sections, {}).planned_peak_bytes;
      const ProgramReport equal = planned(row, sections, {}, budget);
      ASSERT_EQ(equal.bytes_out, 0U);
      const ProgramReport found = planned(row, 0, cuts_within(budget), budget);
      EXPECT_EQ(found.bytes_out, 0U);
      EXPECT_LE(found.planned_peak_bytes, budget);
      EXPECT_LE(found.predicted_seconds, equal.predicted_seconds * (1 + 1e-12));
      quicker += found.predicted_seconds < equal.predicted_seconds ? 1 : 0;
    }
  }
  EXPECT_GT(quicker, last - first) << "shows nothing";
}

TEST(PlacedCuts, AreNeverWorseThanEqualPartsByOperations) {
  expect_as_low_as_equal_parts(1, 4);
}

TEST(PlacedCuts, AreNoSlowerThanEqualPartsByOperationsThatFit) {
  expect_as_quick_as_equal_parts(1, 4);
}

// Of the label `long` (tests/CMakeLists.txt).
TEST(MorePlacedCuts, AreNeverWorseThanEqualPartsByOperations) {
  expect_as_low_as_equal_parts(5, 60);
}

TEST(MorePlacedCuts, AreNoSlowerThanEqualPartsByOperationsThatFit) {
  expect_as_quick_as_equal_parts(5, 60);
}

}  // namespace
}  // namespace sectionflow::testing
