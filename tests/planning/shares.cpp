#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>

#include "planning/evaluate.h"
#include "planning/generate.h"
#include "planning/lower_bound.h"
#include "planning/search.h"
#include "tests/planning/residual_network.h"

namespace sectionflow::planning {
namespace {

/// More budget, never more seconds, where searches are asked for that.
void expect_monotone(const Problem& problem, int num_budgets, std::int64_t effort, const Link& link = {}) {
  const std::int64_t low = largest_working_set(problem, link).bytes, high = default_peak(problem);
  double before = std::numeric_limits<double>::infinity();
  int found = 0;
  for (int i = 0; i <= num_budgets; ++i) {
    const std::int64_t budget = low + (high - low) * i / num_budgets;
    const SearchResult result =
        search_plan(problem, {.budget = budget, .link = link, .never_slower = true, .effort = effort});
    const double seconds = result.plan ? result.evaluation.seconds : std::numeric_limits<double>::infinity();
    EXPECT_LE(seconds, before * (1 + 1e-12)) << "budget " << budget << ", number " << i;
    before = std::min(before, seconds);
    found += result.plan ? 1 : 0;
  }
  EXPECT_GE(found, num_budgets * 9 / 10);
}

TEST(SearchPlan, NeverSlowerIsTheQuickestOfTheSearchesForAllSharesWithinTheBudget) {
  const Problem problem = residual_network({1});
  const std::int64_t low = largest_working_set(problem).bytes, peak = default_peak(problem);
  double quickest = std::numeric_limits<double>::infinity();
  int of_a_smaller_share = 0;
  const auto search = [&](std::int64_t budget, bool never_slower) {
    return search_plan(problem, {.budget = budget, .never_slower = never_slower, .effort = 10'000});
  };
  const SearchResult least = search(low, false);
  if (least.plan) quickest = least.evaluation.seconds;
  for (int percent = 1; percent <= 100; ++percent) {
    const auto budget = static_cast<std::int64_t>(static_cast<double>(peak) * (percent / 100.0));
    if (budget <= low) continue;
    const SearchResult alone = search(budget, false);
    if (alone.plan && alone.evaluation.seconds > quickest) ++of_a_smaller_share;
    if (alone.plan) quickest = std::min(quickest, alone.evaluation.seconds);
    if (percent % 20 != 0) continue;
    const SearchResult result = search(budget + peak / 300, true);
    ASSERT_TRUE(result.plan) << percent;
    EXPECT_EQ(result.evaluation.seconds, quickest) << percent;
    EXPECT_TRUE(evaluate(problem, *result.plan, {.budget = budget}).ok) << percent;
  }
  EXPECT_GT(of_a_smaller_share, 0) << "this problem shows nothing";
}

TEST(SearchPlan, NeverSlowerTellsHowManySearchesAreOver) {
  int later = 0;  // calls of others than first searches
  for (const Problem& problem : {residual_network({1}), generate_unet(3, 3).problem, generate_layered(60, 1).problem,
                                 generate_chain(12, 3).problem}) {
    int last = 0;
    double best = std::numeric_limits<double>::infinity();
    const std::int64_t low = largest_working_set(problem).bytes, high = default_peak(problem);
    const auto tell = [&](const SearchProgress& progress) {
      EXPECT_GE(progress.searches, last);
      EXPECT_LT(progress.searches, progress.most_searches);
      EXPECT_LE(progress.best_seconds, best);
      best = progress.best_seconds;
      last = progress.searches;
      later += last > 0 ? 1 : 0;
    };
    const SearchResult found = search_plan(
        problem, {.budget = low + (high - low) / 3, .never_slower = true, .effort = 20'000, .progress = tell});
    if (found.plan) {
      EXPECT_GE(best, found.evaluation.seconds);
    }
  }
  EXPECT_GT(later, 0);
}

TEST(SearchPlan, MoreBudgetIsNeverSlower) {
  expect_monotone(residual_network({1, 1}), 8, 50'000);
  expect_monotone(generate_chain(12, 3).problem, 8, 50'000);
  expect_monotone(generate_gpt({.layers = 2}).problem, 8, 50'000);
}

TEST(ManySearches, MoreBudgetIsNeverSlowerInAFineGrid) {
  expect_monotone(residual_network({2, 2, 2}), 50, 4'000'000);
  expect_monotone(generate_chain(20, 3).problem, 50, 4'000'000);
  expect_monotone(generate_unet(4, 3).problem, 50, 4'000'000);
  expect_monotone(generate_gpt({.layers = 6}).problem, 50, 4'000'000);
}

}  // namespace
}  // namespace sectionflow::planning
