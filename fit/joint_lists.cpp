#include "fit/joint_lists.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "fit/fit_notes.h"
#include "planning/lower_bound.h"
#include "planning/search.h"

namespace sectionflow {
namespace {

constexpr int kRungs = 64;
/// Of moves, for each rung: a search that is worth its time.
constexpr std::int64_t kRounds = 100;
/// Plans are searched for and written by a link that takes so much longer: steps that are a few percent quicker than
/// their profile says would wait for copies that were planned to be over just in time.
constexpr double kMarginOfCopies = 1.05;

planning::Link with_margin(planning::Link link) {
  link.bytes_per_second /= kMarginOfCopies;
  return link;
}

/// What is less than such a share of the peak is not worth a copy, and makes the search longer.
constexpr std::int64_t kSmallShare = 1000;

planning::Problem without_small_copies(planning::Problem problem) {
  const std::int64_t small = planning::default_peak(problem) / kSmallShare;
  for (planning::PlannedValue& value : problem.values) value.movable = value.movable && value.bytes >= small;
  return problem;
}

}  // namespace

JointLists::JointLists(Source source)
    : source_(std::move(source)),
      problem_(without_small_copies(source_.problem.problem())),
      link_{.bytes_per_second = source_.drafts.times().link_rate(),
            .latency = source_.drafts.times().transfer(StepKind::copy_out, 0),
            .drag = source_.drafts.times().drag(1)} {
  const std::int64_t most = planning::default_peak(problem_);
  ladder_ = {kRungs, std::min(planning::largest_working_set(problem_, link_).bytes, most), most};
}

double JointLists::least_seconds(int rung) {
  const auto known = least_seconds_.find(rung);
  if (known != least_seconds_.end()) return known->second;
  // What costs more to prove than to search for is not worth it.
  constexpr std::int64_t kLooks = 300'000'000;
  constexpr double kRounding = 1e-9;  // bounds and plans add up seconds in other orders
  const planning::BoundOptions options{.link = link_, .effort = kLooks, .check = source_.check};
  const double extra = planning::lower_bound(problem_, ladder_.budget_of(rung), options).extra_seconds;
  return least_seconds_[rung] = planning::default_cost(problem_) + extra * (1 - kRounding);
}

const FittedList* JointLists::list(int rung) {
  auto known = lists_.find(rung);
  if (known == lists_.end()) known = lists_.emplace(rung, searched(rung)).first;
  return known->second ? &*known->second : nullptr;
}

std::optional<FittedList> JointLists::searched(int rung) {
  planning::SearchOptions search;
  search.budget = ladder_.budget_of(rung);
  search.link = with_margin(link_);
  search.order_fixed = source_.order_fixed;
  search.effort = effort_of_a_rung();
  search.looks = std::min(search.looks, 100 * search.effort);
  search.check = source_.check;
  const int start = source_.alone.last_within(search.budget);
  if (start >= 0 && source_.alone.rung(start).plan) search.starts = {*source_.alone.rung(start).plan};
  const planning::SearchResult found = search_plan(problem_, search);
  return found.plan ? std::optional(drafted(*found.plan, search.budget)) : std::nullopt;
}

/// As much more or less than what is worth its time as it is for the frontier without copies.
std::int64_t JointLists::effort_of_a_rung() const {
  constexpr double kMost = 1e15;
  const auto usual = static_cast<double>(kRounds * planning::round_of_moves(problem_));
  if (source_.effort == 0) return static_cast<std::int64_t>(usual);
  const auto of_frontier = static_cast<double>(planning::default_frontier_effort(problem_, source_.alone.num_rungs()));
  const double scaled = usual * (static_cast<double>(source_.effort) / of_frontier);
  return static_cast<std::int64_t>(std::clamp(scaled, 1.0, kMost));
}

FittedList JointLists::drafted(const planning::Plan& plan, std::int64_t budget) {
  const planning::Evaluation evaluation = evaluate(problem_, plan, {.budget = budget, .link = link_});
  FittedList list = source_.drafts.plain(source_.problem.list_of(plan, {.budget = budget, .link = with_margin(link_)}));
  list.seconds = std::max(list.seconds, evaluation.seconds);
  list.notes = joint_notes(problem_, plan, evaluation, source_.name);
  return list;
}

}  // namespace sectionflow
