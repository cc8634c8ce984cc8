#include "planning/shares.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "planning/evaluate.h"
#include "planning/lower_bound.h"

namespace sectionflow::planning {
namespace {

/// Budgets that do not depend on the one that is asked for, ascending: the least that any plan needs, and shares of the
/// default plan's peak in whole percent.
std::vector<std::int64_t> shares_within(const Problem& problem, const SearchOptions& options) {
  constexpr int kShares = 100;
  const std::int64_t least = largest_working_set(problem, options.link).bytes, peak = default_peak(problem);
  std::vector<std::int64_t> budgets = {least};
  for (int percent = 1; percent <= kShares; ++percent) {
    const auto budget = static_cast<std::int64_t>(static_cast<double>(peak) * (static_cast<double>(percent) / kShares));
    if (budget > least && budget <= options.budget) budgets.push_back(budget);
  }
  return budgets;
}

}  // namespace

SearchResult search_shares(const Problem& problem, SearchOptions options) {
  options.never_slower = false;
  std::vector<std::int64_t> budgets = shares_within(problem, options);
  if (budgets.front() > options.budget) return search_plan(problem, options);
  SearchResult best;
  const auto most = static_cast<int>(budgets.size());
  if (options.progress) {
    options.progress = [&, tell = options.progress](SearchProgress progress) {
      progress.searches = most - static_cast<int>(budgets.size());
      progress.most_searches = most;
      if (best.plan) progress.best_seconds = std::min(progress.best_seconds, best.evaluation.seconds);
      tell(progress);
    };
  }
  for (; !budgets.empty(); budgets.pop_back()) {
    options.budget = budgets.back();
    const double extra =
        best.plan ? lower_bound(problem, options.budget, {.link = options.link, .check = options.check}).extra_seconds
                  : 0;
    // Neither this share nor any below it has a quicker one.
    if (best.plan && best.evaluation.seconds <= default_cost(problem) + extra) break;
    SearchResult found = search_plan(problem, options);
    const bool is_first = best.reason.empty() && !best.plan;
    const bool is_quicker = found.plan && (!best.plan || found.evaluation.seconds < best.evaluation.seconds);
    if (is_first || is_quicker) best = std::move(found);
  }
  return best;
}

}  // namespace sectionflow::planning
