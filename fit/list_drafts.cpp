#include "fit/list_drafts.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/bytes.h"
#include "schedule/budget_advice.h"
#include "swap/simulate.h"
#include "swap/swap_notes.h"

namespace sectionflow {
namespace {

/// More than any list takes.
constexpr std::size_t kAllMemory = std::numeric_limits<std::size_t>::max() / 8;

FittedList told(SwapPlan plan, const SwapPlanner& planner) {
  return {.list = std::move(plan.list),
          .device_peak = plan.device_peak,
          .host_peak = plan.host_peak,
          .disk_peak = plan.disk_peak,
          .seconds = plan.prediction.seconds,
          .notes = swap_notes(planner.problem(), plan.decisions, plan.prediction)};
}

}  // namespace

bool is_planned_elsewhere(const InstructionList& list) {
  return !list.entries.empty() ||
         std::ranges::any_of(list.instructions, [](const Instruction& each) { return is_transfer(each.kind); });
}

FittedList ListDrafts::plain(const InstructionList& list) {
  if (has_forced()) return planned(list, true).list;
  Draft draft = tools_.draft(list);
  FittedList drafted{.list = list,
                     .device_peak = draft.device_peak_bytes,
                     .host_peak = draft.host_peak_bytes,
                     .disk_peak = draft.disk_peak_bytes};
  drafted.seconds = predict(draft, times_).seconds;
  return drafted;
}

ListDrafts::Swapped ListDrafts::swapped(const InstructionList& list) {
  return planned(list, false);
}

InstructionList ListDrafts::with_forced(const InstructionList& list) {
  if (!has_forced()) return list;
  const std::size_t disk = tools_.budgets().disk > 0 ? kAllMemory : 0;
  const OtherBudgets roomy(tools_, {.device = kAllMemory, .host = kAllMemory, .disk = disk});
  return planned(list, true).list.list;
}

std::size_t ListDrafts::least_of_any(const InstructionList& list) {
  const Draft draft = tools_.draft(list);
  return round_up(tools_.variables().end_bytes) +
         largest_operation(draft, tools_.kernels(), tools_.graph().graph()).bytes;
}

std::size_t ListDrafts::least_offloaded(const InstructionList& list) {
  const std::size_t disk = has_forced() && tools_.budgets().disk > 0 ? kAllMemory : 0;
  const OtherBudgets roomy(tools_, {.device = 1, .host = kAllMemory, .disk = disk});
  return std::max<std::size_t>(swapped(list).least_device_bytes, 1);
}

std::size_t ListDrafts::least_of(const InstructionList& list) {
  return round_up(tools_.variables().end_bytes) + tools_.draft(list).plan.lower_bound_bytes;
}

std::size_t ListDrafts::device_capacity() const {
  const std::size_t device = tools_.budgets().device;
  return device - std::min(round_up(tools_.variables().end_bytes), device);
}

bool ListDrafts::fits(const FittedList& list) const {
  return list.device_peak <= tools_.budgets().device && is_within_other_tiers(list);
}

bool ListDrafts::is_within_other_tiers(const FittedList& list) const {
  return list.host_peak <= tools_.budgets().host && list.disk_peak <= tools_.budgets().disk;
}

bool ListDrafts::is_better(const FittedList& a, const FittedList& b) const {
  if (fits(a) != fits(b)) return fits(a);
  if (fits(a)) return a.seconds < b.seconds;
  const bool is_within = is_within_other_tiers(a);
  if (is_within != is_within_other_tiers(b)) return is_within;
  return a.device_peak < b.device_peak;
}

OffloadPolicies ListDrafts::request(const InstructionList& list, bool only_forced) const {
  if (!policies_.offloads) return {};
  OffloadPolicies request = policies_.offloads(list);
  if (!only_forced) return request;
  request.placement = [any = std::move(request.placement)](const IdleStretch& stretch) {
    const Placement placement = any(stretch);
    return placement == Placement::automatic ? Placement::keep : placement;
  };
  return request;
}

std::optional<FittedList> ListDrafts::swapped_within(const InstructionList& list, double seconds) {
  SwapPlanner planner(list, tools_, request(list, false), profile_, check_);
  std::optional<SwapPlan> plan = planner.plan_within(seconds);
  if (!plan) return std::nullopt;
  return told(*std::move(plan), planner);
}

ListDrafts::Swapped ListDrafts::planned(const InstructionList& list, bool only_forced) {
  SwapPlanner planner(list, tools_, request(list, only_forced), profile_, check_);
  FittedList swapped = told(planner.plan(), planner);
  return {std::move(swapped), planner.smallest_budget(), planner.smallest_is_exact()};
}

}  // namespace sectionflow
