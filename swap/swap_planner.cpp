#include "swap/swap_planner.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "schedule/insert_offloads.h"
#include "swap/choose_offloads.h"

namespace sectionflow {
namespace {

/// Device budgets that are planned for, from the least that any plan can reach to what the program needs without
/// offloads; and host budgets for each, below what its plan takes that has no limit on the host.
constexpr std::size_t kRungs = 64, kHostRungs = 16;
/// Offloads are also chosen as for less capacity, by multiples of so many rungs.
constexpr std::size_t kSlackRungs = 4;
/// Drafts of the lowest rung's plan; any other is drafted once.
constexpr int kDraftsOfTheLeast = 5;
/// The share of the computing time that no other plan is worth looking for.
constexpr double kSmallestGain = 1e-3;
constexpr std::size_t kUnlimited = std::numeric_limits<std::size_t>::max() / 4;

std::size_t above(std::size_t bytes, std::size_t limit) {
  return bytes > limit ? bytes - limit : 0;
}

}  // namespace

SwapPlanner::SwapPlanner(const InstructionList& list, PlanningTools& tools, const OffloadPolicies& request,
                         const Profile& profile, std::function<void()> check)
    : list_(list), tools_(tools), check_(std::move(check)), times_(tools, profile) {
  Draft draft = tools.draft(list);
  problem_ = make_swap_problem(list, draft, tools, request, times_);
  const auto must_go = [](const OffloadCandidate& candidate) { return candidate.placement == Placement::disk; };
  if (problem_.has_disk && std::ranges::none_of(problem_.candidates, must_go)) {
    without_disk_.emplace(problem_);
    without_disk_->has_disk = false;
  }
  for (double seconds : problem_.seconds) compute_seconds_ += seconds;
  make_ladders(draft.device_peak_bytes);
}

void SwapPlanner::check() const {
  if (check_) check_();
}

void SwapPlanner::make_ladders(std::size_t top) {
  const std::size_t variables = round_up(tools_.variables().end_bytes);
  const std::size_t bottom = std::min(top, variables + least_device_bytes(problem_));
  for (std::size_t i = 0; i <= kRungs; ++i) rungs_.push_back(i == kRungs ? top : bottom + (top - bottom) / kRungs * i);
  rungs_.erase(std::unique(rungs_.begin(), rungs_.end()), rungs_.end());
}

SwapPlan SwapPlanner::plan() {
  try_all();
  SF_CHECK(best_, InternalError, "no plan of offloads takes a finite time");
  if (!fits(*best_)) find_least(highest_rung() + 1);
  return std::move(*best_);
}

/// The lowest rung's plans for a limited host are for those who want to know what the least is.
std::optional<SwapPlan> SwapPlanner::plan_within(double seconds) {
  limit_ = seconds;
  for (std::size_t rung = highest_rung(); rung > 0 && may_help(bound_of(rung)); --rung) try_rung(rung);
  if (may_help(bound_of(0))) {
    const Proposal free = free_proposal(0);
    if (may_help(free.bound) && host_holds(free.plan.host_bytes)) offer(free_plan(free));
  }
  return best_ && fits(*best_) ? std::move(best_) : std::nullopt;
}

std::size_t SwapPlanner::highest_rung() const {
  const auto reached = std::upper_bound(rungs_.begin(), rungs_.end(), tools_.budgets().device);
  return reached == rungs_.begin() ? 0 : static_cast<std::size_t>(reached - rungs_.begin()) - 1;
}

void SwapPlanner::try_all() {
  const std::size_t highest = highest_rung();
  for (std::size_t rung = highest + 1; rung-- > 0 && may_help(bound_of(rung));) try_rung(rung);
  if (best_) return;
  // By whole pages the host has no room, whatever the device has; a plan whose last buffer ends within a page may fit
  // all the same. Each rung is asked, so that more of the device has all the plans of less.
  for (std::size_t rung = highest + 1; rung-- > 0 && may_help(bound_of(rung));) {
    const Proposal free = free_proposal(rung);
    if (!may_help(free.bound)) continue;
    offer(free_plan(free));
    if (problem_.has_disk) offer(made_of(tight_proposal(free, 0, false)));
  }
}

/// Of rungs above the budget some may have plans that take less than all below: the least that is asked for is the
/// smallest budget that reaches a rung whose plan it has room for.
void SwapPlanner::find_least(std::size_t rung) {
  if (best_->device_peak <= tools_.budgets().device) return;
  smallest_budget_ = best_->device_peak;
  host_decides_ = host_decides_ || excess(*best_) > 0;
  for (; rung < rungs_.size() && rungs_[rung] < smallest_budget_; ++rung) {
    if (!problem_.has_disk && !host_holds(least_host_bytes(rung))) continue;
    const Proposal free = free_proposal(rung);
    if (!host_holds(free.plan.host_bytes)) continue;
    const SwapPlan& plan = free_plan(free);
    if (excess(plan) > 0) {
      host_decides_ = true;
      continue;
    }
    smallest_budget_ = std::min(smallest_budget_, std::max(plan.device_peak, rungs_[rung]));
  }
}

/// First the plan without a limit on the host; where the host has no room for it, those for the host's rungs.
void SwapPlanner::try_rung(std::size_t rung) {
  if (!problem_.has_disk && !host_holds(least_host_bytes(rung))) return;
  const Proposal free = free_proposal(rung);
  if (!may_help(free.bound)) return;
  if (host_holds(free.plan.host_bytes)) {
    const SwapPlan& plan = free_plan(free);
    offer(plan);
    // Only the lowest rung's plans for a limited host may take less of the device.
    if (plan.host_peak <= tools_.budgets().host && (rung > 0 || fits(plan))) return;
  }
  try_tight(free);
}

/// The plans of one device rung for a limited host.
void SwapPlanner::try_tight(const Proposal& free) {
  if (without_disk_) try_tight(free, true);
  try_tight(free, false);
}

void SwapPlanner::try_tight(const Proposal& free, bool leaves_out_disk) {
  const std::vector<std::size_t> rungs = host_rungs(free, leaves_out_disk);
  for (auto host = rungs.rbegin(); host != rungs.rend(); ++host) {
    if (*host > host_capacity()) continue;
    Proposal tight = tight_proposal(free, *host, leaves_out_disk);
    if (tight.plan.host_bytes > host_capacity() || !may_help(tight.bound)) continue;
    const SwapPlan& unlimited = free_plan(free);
    if (free.rung > 0 && unlimited.device_peak > tools_.budgets().device) return;
    tight.bound = std::max(tight.bound, unlimited.prediction.seconds);
    if (may_help(tight.bound)) offer(made_of(std::move(tight)));
  }
}

const SwapProblem& SwapPlanner::problem_of(bool leaves_out_disk) const {
  return leaves_out_disk ? *without_disk_ : problem_;
}

/// Host budgets for a device rung, ascending: from the least that can be reached to less than what all offloads of the
/// plan without a limit take.
std::vector<std::size_t> SwapPlanner::host_rungs(const Proposal& free, bool leaves_out_disk) const {
  std::vector<std::size_t> rungs;
  std::size_t least = least_host_bytes(free.rung);
  if (problem_of(leaves_out_disk).has_disk) {
    rungs.push_back(0);
    least = tight_proposal(free, 0, false).plan.host_bytes;
  }
  for (std::size_t i = 0; i < kHostRungs && least < free.plan.host_bytes; ++i) {
    const std::size_t host = least + (free.plan.host_bytes - least) / kHostRungs * i;
    rungs.push_back(round_up(host, alignment_of(Tier::host)));
  }
  return rungs;
}

SwapPlanner::Proposal SwapPlanner::tight_proposal(const Proposal& free, std::size_t host, bool leaves_out_disk) const {
  check();
  Proposal tight{.rung = free.rung,
                 .leaves_out_disk = leaves_out_disk,
                 .capacity = {.device = free.capacity.device, .host = host}};
  const SwapProblem& problem = problem_of(leaves_out_disk);
  tight.plan = problem.has_disk ? plan_offloads(problem, tight.capacity, free.plan.offloaded)
                                : search_offloads(problem, tight.capacity, slack(), check_);
  tight.bound = std::max(free.bound, tight.plan.simulation.seconds);
  return tight;
}

SwapPlanner::Proposal SwapPlanner::free_proposal(std::size_t rung) const {
  check();
  Proposal proposal{
      .rung = rung, .leaves_out_disk = false, .capacity = {.device = device_capacity(rung), .host = kUnlimited}};
  proposal.plan = search_offloads(problem_, proposal.capacity, slack(), check_);
  proposal.bound = std::max(bound_of(rung), proposal.plan.simulation.seconds);
  return proposal;
}

const SwapPlan& SwapPlanner::free_plan(const Proposal& free) {
  const auto known = free_plans_.find(free.rung);
  if (known != free_plans_.end()) return known->second;
  return free_plans_.emplace(free.rung, made_of(free)).first->second;
}

/// Where its buffers do not lie close enough, a lower rung is what has less room; for the lowest the proposal is
/// drafted again, with less.
SwapPlan SwapPlanner::made_of(Proposal proposal) {
  SwapPlan best = drafted(proposal), last = best;
  for (int i = 1; proposal.rung == 0 && i < kDraftsOfTheLeast && last.device_peak > rungs_.front(); ++i) {
    proposal.capacity.device = above(proposal.capacity.device, above(last.device_peak, rungs_.front()));
    const SwapProblem& problem = problem_of(proposal.leaves_out_disk);
    const auto offloaded = OffloadRepair(problem).repaired(proposal.capacity.device, proposal.plan.offloaded);
    proposal.plan = plan_offloads(problem, proposal.capacity, offloaded);
    last = drafted(proposal);
    if (last.device_peak < best.device_peak && last.host_peak <= best.host_peak) best = last;
  }
  return best;
}

SwapPlan SwapPlanner::drafted(const Proposal& proposal) {
  check();
  SwapPlan plan{.decisions = proposal.plan.decisions};
  plan.list = insert_offloads(list_, offloads_of(problem_, plan.decisions));
  Draft draft = tools_.draft(plan.list);
  plan.device_peak = draft.device_peak_bytes;
  plan.host_peak = draft.host_peak_bytes;
  plan.disk_peak = draft.disk_peak_bytes;
  plan.prediction = predict(draft, times_);
  plan.prediction.seconds = counted(std::max(plan.prediction.seconds, proposal.bound));
  return plan;
}

void SwapPlanner::offer(SwapPlan plan) {
  if (!best_ || better(plan, *best_)) best_ = std::move(plan);
}

/// Whether host memory has so many bytes for what is offloaded; remembers where it has not.
bool SwapPlanner::host_holds(std::size_t bytes) {
  const bool holds = bytes <= host_capacity();
  host_decides_ = host_decides_ || !holds;
  return holds;
}

bool SwapPlanner::may_help(double bound) const {
  const double seconds = counted(bound);
  return seconds < limit_ && (!best_ || !fits(*best_) || seconds < best_->prediction.seconds);
}

double SwapPlanner::counted(double seconds) const {
  const double step = kSmallestGain * compute_seconds_;
  return step > 0 ? std::ceil(seconds / step - 1e-6) * step : seconds;
}

bool SwapPlanner::fits(const SwapPlan& plan) const {
  const TierBudgets& budgets = tools_.budgets();
  return plan.device_peak <= budgets.device && plan.host_peak <= budgets.host && plan.disk_peak <= budgets.disk;
}

bool SwapPlanner::better(const SwapPlan& a, const SwapPlan& b) const {
  if (fits(a) != fits(b)) return fits(a);
  if (fits(a)) return a.prediction.seconds < b.prediction.seconds;
  return excess(a) != excess(b) ? excess(a) < excess(b) : a.device_peak < b.device_peak;
}

/// Bytes off the device for which there is no room.
std::size_t SwapPlanner::excess(const SwapPlan& plan) const {
  return above(plan.host_peak, tools_.budgets().host) + above(plan.disk_peak, tools_.budgets().disk);
}

double SwapPlanner::bound_of(std::size_t rung) const {
  return least_seconds(problem_, device_capacity(rung));
}

/// What must be in host memory at some step while there is no disk.
std::size_t SwapPlanner::least_host_bytes(std::size_t rung) const {
  const std::size_t most =
      problem_.device.empty() ? 0 : *std::max_element(problem_.device.begin(), problem_.device.end());
  return above(most, device_capacity(rung));
}

std::size_t SwapPlanner::slack() const {
  return (rungs_.back() - rungs_.front()) / kRungs * kSlackRungs;
}

std::size_t SwapPlanner::device_capacity(std::size_t rung) const {
  return round_up(above(rungs_[rung], round_up(tools_.variables().end_bytes)));
}

std::size_t SwapPlanner::host_capacity() const {
  // Up to a page's end: what lies last takes no more than its bytes.
  return round_up(above(tools_.budgets().host, host_home_bytes()), alignment_of(Tier::host));
}

std::size_t SwapPlanner::host_home_bytes() const {
  return round_up(tools_.variables().host_end_bytes, alignment_of(Tier::host));
}

}  // namespace sectionflow
