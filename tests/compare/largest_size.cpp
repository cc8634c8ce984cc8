#include "compare/largest_size.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "base/bytes.h"
#include "base/error.h"
#include "tests/support/tiny_model.h"

namespace sectionflow {
namespace {

using namespace testing_support;
using testing::HasSubstr;

TEST(LargestThatFits, FindsEveryBoundary) {
  for (const std::int64_t unit : {1, 3, 16}) {
    for (std::int64_t boundary = 0; boundary <= 130; ++boundary) {
      for (const std::int64_t start : {std::int64_t{1}, std::int64_t{5}, std::int64_t{64}, std::int64_t{100}}) {
        int calls = 0;
        const auto fits = [&](std::int64_t size) {
          ++calls;
          EXPECT_EQ(size % unit, 0);
          EXPECT_GE(size, unit);
          EXPECT_LE(size, 100 * unit);
          return size <= boundary * unit;
        };
        EXPECT_EQ(largest_that_fits(fits, start * unit, 100 * unit, unit), std::min<std::int64_t>(boundary, 100) * unit)
            << "from " << start << " by " << unit;
        EXPECT_LE(calls, 16);
      }
    }
  }
}

TEST(LargestThatFits, TriesNothingBelowTheLeast) {
  for (const std::int64_t least : {3, 16, 40, 64}) {
    for (std::int64_t boundary = 0; boundary <= 130; ++boundary) {
      const auto fits = [&](std::int64_t size) {
        EXPECT_EQ(size % 3, 0);
        EXPECT_GE(size, least);
        return size <= boundary;
      };
      const std::int64_t largest = std::min<std::int64_t>(boundary, 100) / 3 * 3;
      EXPECT_EQ(largest_that_fits(fits, 66, 100, 3, least), largest < least ? 0 : largest) << least << ", " << boundary;
    }
  }
}

TEST(LargestThatFits, RefusesWhatMeansNothing) {
  const auto fits = [](std::int64_t) { return true; };
  EXPECT_THROW(largest_that_fits(fits, 0, 10), ArgumentError);
  EXPECT_THROW(largest_that_fits(fits, 11, 10), ArgumentError);
  EXPECT_THROW(largest_that_fits(fits, 5, 10, 0), ArgumentError);
  EXPECT_THROW(largest_that_fits(fits, 5, 10, 6), ArgumentError);
  EXPECT_THROW(largest_that_fits(fits, 5, 10, 1, 6), ArgumentError);
  EXPECT_THROW(largest_that_fits(fits, 5, 10, 1, 0), ArgumentError);
}

LargestOptions search(std::size_t device_memory) {
  LargestOptions options{.session = {.device_memory = device_memory, .threads = 1, .check_schedules = true}};
  options.strategies = [](std::int64_t) {
    return std::vector<Strategy>{tiny_strategy("whole", 0), tiny_strategy("sections:3", 3)};
  };
  options.batch = [](std::int64_t batch) { return tiny_batch(0, batch); };
  return options;
}

TEST(LargestSizes, BatchesAreTheLargestAndAreTrained) {
  LargestOptions options = search(2_MiB);
  options.start = 8;
  options.limit = 4096;
  std::vector<std::string> found_names;
  options.on_found = [&](const std::string& strategy, std::int64_t) { found_names.push_back(strategy); };
  const LargestSizes sizes = find_largest_sizes(options);
  EXPECT_EQ(found_names, (std::vector<std::string>{"whole", "sections:3"}));
  ASSERT_EQ(sizes.strategies.size(), 2u);
  for (const LargestSize& found : sizes.strategies) {
    EXPECT_TRUE(found.proved) << found.name;
    EXPECT_LE(found.planned_peak_bytes, 2_MiB);
    EXPECT_EQ(found.planned_peak_bytes, found.measured_peak_bytes);
    EXPECT_GT(found.step_ms, 0);
    EXPECT_THAT(found.next_misfit, HasSubstr("needs"));
  }
  EXPECT_EQ(sizes.strategies[0].ratio, 1);
  EXPECT_GT(sizes.strategies[1].size, sizes.strategies[0].size) << "less memory for the same batch";
  EXPECT_DOUBLE_EQ(sizes.strategies[1].ratio,
                   static_cast<double>(sizes.strategies[1].size) / static_cast<double>(sizes.strategies[0].size));
  // The plan at the size found, and at the next, by other means: a comparison of real steps.
  for (std::size_t i = 0; i < 2; ++i) {
    for (const std::int64_t more : {0, 1}) {
      Graph graph;
      GraphSectionManager manager(graph);
      const Strategy strategy = options.strategies(0)[i];
      const TrainableModel model = strategy.build(graph, manager);
      manager.set_section_options(*strategy.sections);
      Session session(graph, options.session);
      const Batch batch = tiny_batch(0, sizes.strategies[i].size + more);
      const FeedTypes types = types_of(model.feeds(batch));
      const ProgramReport report = i == 0
                                       ? session.plan({model.loss}, types, {.targets = manager.training_operations()})
                                       : manager.plan(session, {model.loss}, types);
      EXPECT_EQ(report.fits, more == 0) << sizes.strategies[i].name;
    }
  }
  EXPECT_THAT(sizes.text(), HasSubstr("largest batch"));
}

TEST(LargestSizes, AreThoseOfThePlansWhereNothingIsToBeTrained) {
  LargestOptions options = search(2_MiB);
  const LargestSizes trained = find_largest_sizes(options);
  options.train = false;
  const LargestSizes planned = find_largest_sizes(options);
  for (std::size_t i = 0; i < trained.strategies.size(); ++i) {
    EXPECT_EQ(planned.strategies[i].size, trained.strategies[i].size);
    EXPECT_EQ(planned.strategies[i].planned_peak_bytes, trained.strategies[i].planned_peak_bytes);
    EXPECT_EQ(planned.strategies[i].measured_peak_bytes, 0U);
    EXPECT_FALSE(planned.strategies[i].proved);
  }
}

TEST(LargestSizes, NothingFitsIsSaid) {
  LargestOptions options = search(16_KiB);
  const LargestSizes sizes = find_largest_sizes(options);
  EXPECT_EQ(sizes.strategies[0].size, 0);
  EXPECT_FALSE(sizes.strategies[0].proved);
  EXPECT_EQ(sizes.strategies[1].ratio, 0);
  EXPECT_THAT(sizes.text(), HasSubstr("does not fit: "));
}

TEST(LargestSizes, NeedABudget) {
  EXPECT_THROW(find_largest_sizes(search(0)), ArgumentError);
}

}  // namespace
}  // namespace sectionflow
