#include "planning/frontier.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/error.h"
#include "planning/lower_bound.h"
#include "planning/search.h"

namespace sectionflow::planning {

Frontier::Frontier(const Problem& problem, FrontierOptions options)
    : problem_(problem),
      options_(std::move(options)),
      asked_rungs_(options_.num_rungs),
      asked_effort_(options_.effort) {
  check_problem(problem);
  if (options_.num_rungs == 0) options_.num_rungs = default_rungs(problem);
  SF_CHECK(options_.num_rungs >= 2 && options_.num_rungs <= Ladder::kMostRungs, ArgumentError, "a ladder of ",
           options_.num_rungs, " rungs, wanted 2 to ", Ladder::kMostRungs);
  SF_CHECK(options_.effort >= 0, ArgumentError, "an effort of ", options_.effort, " moves, wanted at least 0",
           hint("0 is the default"));
  if (options_.effort == 0) options_.effort = default_frontier_effort(problem, options_.num_rungs);
  constexpr std::int64_t kMostEffort = 1'000'000'000'000'000;  // longer than anybody waits, and far from overflows
  options_.effort = std::min(options_.effort, kMostEffort);
  const std::int64_t most = default_peak(problem);
  ladder_ = {options_.num_rungs, std::min(largest_working_set(problem).bytes, most), most};
}

bool Frontier::is_by(const FrontierOptions& options) const {
  return options.num_rungs == asked_rungs_ && options.effort == asked_effort_ &&
         options.order_fixed == options_.order_fixed && options.seed == options_.seed;
}

void Frontier::set_watch(std::function<void(int rungs_done)> progress, std::function<void()> check) {
  options_.progress = std::move(progress);
  options_.check = std::move(check);
}

SearchOptions Frontier::search_options(std::int64_t budget, std::int64_t effort, const Rung* start) const {
  SearchOptions search;
  search.budget = budget;
  search.order_fixed = options_.order_fixed;
  search.effort = std::max<std::int64_t>(effort, 1);
  search.looks = std::min(search.looks, 100 * search.effort);
  search.seed = options_.seed;
  search.check = options_.check;
  if (options_.progress) {
    search.progress = [this](const SearchProgress&) { tell(); };
  }
  if (start != nullptr && start->plan) search.starts = {*start->plan};
  return search;
}

/// From the rung down, until no plan for less memory can be quicker than what is there: the same as of all of them.
const Frontier::Rung& Frontier::rung(int index) {
  if (const auto known = best_.find(index); known != best_.end()) return known->second;
  Rung best{.budget = budget_of(index)};
  const int lowest = lowest_with_plan();
  for (int below = index; below >= lowest; --below) {
    if (best.plan && best.evaluation.seconds <= least_seconds(below)) break;
    const auto known = best_.find(below);
    const Rung& next = known != best_.end() ? known->second : own(below);
    if (next.plan && (!best.plan || next.evaluation.seconds < best.evaluation.seconds)) {
      best.plan = next.plan;
      best.evaluation = next.evaluation;
    }
    if (known != best_.end()) break;
  }
  return best_.emplace(index, std::move(best)).first->second;
}

void Frontier::search_beside(int index) {
  if (index > 0) (void)rung(index - 1);
  if (index + 1 < num_rungs()) (void)rung(index + 1);
}

const Frontier::Rung* Frontier::known(int index) const {
  const auto known = best_.find(index);
  return known == best_.end() ? nullptr : &known->second;
}

double Frontier::least_seconds(int index) {
  if (const auto known = bounds_.find(index); known != bounds_.end()) return known->second;
  const double extra = lower_bound(problem_, budget_of(index), {.check = options_.check}).extra_seconds;
  return bounds_.emplace(index, default_cost(problem_) + extra).first->second;
}

const Frontier::Rung& Frontier::own(int index) {
  if (const auto known = own_.find(index); known != own_.end()) return known->second;
  Rung rung{.budget = budget_of(index)};
  // Where memory is short, more is left to find.
  const std::int64_t effort =
      options_.effort / options_.num_rungs * 2 * (options_.num_rungs - index) / options_.num_rungs;
  SearchResult found = search_plan(problem_, search_options(rung.budget, effort, nullptr));
  rung.plan = std::move(found.plan);
  rung.evaluation = std::move(found.evaluation);
  const Rung& searched = own_.emplace(index, std::move(rung)).first->second;
  tell();
  return searched;
}

void Frontier::tell() const {
  if (options_.progress) options_.progress(static_cast<int>(own_.size()));
}

/// Where the lowest rung has no plan, the lowest that has one is found between it and the highest, which has that of
/// the list as it is. What has none is searched for to the end, and there may be dozens of such rungs: half of what is
/// left is left out by each.
int Frontier::lowest_with_plan() {
  if (lowest_ >= 0) return lowest_;
  if (own(0).plan) return lowest_ = 0;
  int without = 0, with = options_.num_rungs - 1;
  while (with - without > 1) {
    const int middle = without + (with - without) / 2;
    (own(middle).plan ? with : without) = middle;
  }
  return lowest_ = with;
}

int Frontier::dearest_operation(int index) {
  const auto known = dearest_.find(index);
  if (known != dearest_.end()) return known->second;
  const int operation = lower_bound(problem_, budget_of(index), {.check = options_.check}).operation;
  return dearest_.emplace(index, operation).first->second;
}

const Frontier::Rung& Frontier::with_slack(int index, int manner) {
  const auto known = with_slack_.find({index, manner});
  if (known != with_slack_.end()) return known->second;
  return with_slack_.emplace(std::pair(index, manner), searched_with_slack(index, manner)).first->second;
}

Frontier::Rung Frontier::searched_with_slack(int index, int manner) {
  struct Manner {
    int window, percent;  // operations on either side, as a share of all of them: 1 / window; of the budget
  };
  constexpr Manner kSlacks[kManners] = {{30, 3}, {10, 3}, {100, 5}, {10, 5}};
  const Rung own = this->rung(index);
  Rung rung{.budget = own.budget};
  const int dearest = own.plan ? dearest_operation(index) : -1;
  if (dearest < 0) return rung;
  const Manner& slack = kSlacks[manner];
  Problem problem = problem_;
  const int count = static_cast<int>(problem.operations.size());
  for (int v = 0; v < count; ++v) {
    if (std::abs(v - dearest) <= count / slack.window) continue;
    problem.operations[static_cast<std::size_t>(v)].workspace += own.budget / 100 * slack.percent;
  }
  constexpr std::int64_t kEffort = 4;  // rungs, what the search is worth: there is no plan below to begin with
  SearchResult found =
      search_plan(problem, search_options(own.budget, kEffort * options_.effort / options_.num_rungs, &own));
  tell();
  if (!found.plan) return rung;
  Evaluation evaluation = evaluate(problem_, *found.plan, {.budget = own.budget});
  if (!evaluation.ok || evaluation.cost < own.evaluation.cost) return rung;
  rung.plan = std::move(found.plan);
  rung.evaluation = std::move(evaluation);
  return rung;
}

int default_rungs(const Problem& problem) {
  constexpr std::size_t kMost = 128, kLeast = 16, kMany = 600;
  const std::size_t count = std::max<std::size_t>(problem.operations.size(), 1);
  return static_cast<int>(std::clamp(kMost * kMany / count, kLeast, kMost));
}

std::int64_t default_frontier_effort(const Problem& problem, int num_rungs) {
  // Of few operations the first moves find nearly all there is.
  constexpr std::int64_t kFew = 200, kMost = 3;
  const std::int64_t times = std::clamp<std::int64_t>(std::ssize(problem.operations) / kFew, 1, kMost);
  return std::max(times * effort_of_one_in_many(problem), num_rungs * round_of_moves(problem));
}

}  // namespace sectionflow::planning
