#include "planning/frontier.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "planning/lower_bound.h"
#include "planning/search.h"

namespace sectionflow::planning {
namespace {
/// More are never worth their time, and shares of a budget stay within 64 bits.
constexpr int kMostRungs = 1000;
}  // namespace

Frontier::Frontier(const Problem& problem, FrontierOptions options) : problem_(problem), options_(std::move(options)) {
  check_problem(problem);
  if (options_.num_rungs == 0) options_.num_rungs = default_rungs(problem);
  SF_CHECK(options_.num_rungs >= 2 && options_.num_rungs <= kMostRungs, ArgumentError, "a ladder of ",
           options_.num_rungs, " rungs, wanted 2 to ", kMostRungs);
  SF_CHECK(options_.effort >= 0, ArgumentError, "an effort of ", options_.effort, " moves, wanted at least 0",
           hint("0 is the default"));
  if (options_.effort == 0) options_.effort = default_frontier_effort(problem, options_.num_rungs);
  most_ = default_peak(problem);
  least_ = std::min(largest_working_set(problem).bytes, most_);
}

std::int64_t Frontier::budget_of(int rung) const {
  // The step to the next rung grows linearly, threefold from the lowest to the highest.
  const std::int64_t steps = options_.num_rungs - 1, parts = 2 * steps * steps;
  const std::int64_t span = most_ - least_, share = static_cast<std::int64_t>(rung) * (rung + steps);
  return least_ + span / parts * share + span % parts * share / parts;
}

const Frontier::Rung& Frontier::rung(int index) {
  while (static_cast<int>(rungs_.size()) <= index) {
    const auto next = static_cast<int>(rungs_.size());
    SearchOptions search;
    search.budget = budget_of(next);
    search.order_fixed = options_.order_fixed;
    search.effort = std::max<std::int64_t>(options_.effort / options_.num_rungs, 1);
    search.looks = std::min(search.looks, 100 * search.effort);
    search.seed = options_.seed;
    if (next > 0 && rungs_.back().plan) search.starts = {*rungs_.back().plan};
    SearchResult found = search_plan(problem_, search);
    rungs_.push_back({search.budget, std::move(found.plan), std::move(found.evaluation)});
    if (options_.progress) options_.progress(next + 1);
  }
  return rungs_[static_cast<std::size_t>(index)];
}

int Frontier::last_within(std::int64_t bytes) const {
  int rung = options_.num_rungs - 1;
  while (rung >= 0 && budget_of(rung) > bytes) --rung;
  return rung;
}

int default_rungs(const Problem& problem) {
  constexpr std::size_t kMost = 96, kLeast = 16, kMany = 600;
  const std::size_t count = std::max<std::size_t>(problem.operations.size(), 1);
  return static_cast<int>(std::clamp(kMost * kMany / count, kLeast, kMost));
}

std::int64_t default_frontier_effort(const Problem& problem, int num_rungs) {
  return std::max(default_effort(problem), num_rungs * round_of_moves(problem));
}

}  // namespace sectionflow::planning
