#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <utility>

#include "fit/fit_list.h"
#include "swap/step_times.h"
#include "swap/swap_planner.h"

namespace sectionflow {

/// Whether somebody else has decided where values of a list go.
bool is_planned_elsewhere(const InstructionList& list);

/// The tools have other budgets while this lives, and then those that they had, whatever is thrown.
class OtherBudgets {
 public:
  OtherBudgets(PlanningTools& tools, const TierBudgets& budgets) : tools_(tools), before_(tools.budgets()) {
    tools.set_budgets(budgets);
  }
  ~OtherBudgets() { tools_.set_budgets(before_); }
  OtherBudgets(const OtherBudgets&) = delete;
  OtherBudgets& operator=(const OtherBudgets&) = delete;

 private:
  PlanningTools& tools_;
  const TierBudgets before_;
};

/// Drafts lists as the policies of a request want them, for the budgets of the tools as they are.
class ListDrafts {
 public:
  /// All must outlive this. `check` is called many times a second while it is planned what is offloaded; what it throws
  /// ends that.
  ListDrafts(PlanningTools& tools, const ListPolicies& policies, const Profile& profile, std::function<void()> check)
      : tools_(tools), policies_(policies), profile_(profile), check_(std::move(check)), times_(tools, profile) {}

  /// The list with what is offloaded in any case, and nothing else.
  FittedList plain(const InstructionList& list);

  /// What a list comes to where the rest is offloaded as the budgets demand.
  struct Swapped {
    FittedList list{};
    std::size_t least_device_bytes = 0;  ///< where it does not fit the device: SwapPlanner::smallest_budget
    bool least_is_exact = true;
  };
  Swapped swapped(const InstructionList& list);
  /// The same, where it fits and is quicker than that (SwapPlanner::plan_within).
  std::optional<FittedList> swapped_within(const InstructionList& list, double seconds);

  /// With what is offloaded in any case as it would be with all memory, so that no budget decides.
  InstructionList with_forced(const InstructionList& list);

  /// What seconds of a plan of copies for the list count as: SwapPlanner::counted.
  double counted(const InstructionList& list, double seconds) {
    return SwapPlanner(list, tools_, request(list, true), profile_).counted(seconds);
  }

  /// What no list that executes the same needs less than: the variables, and one operation with its operands. Where
  /// that is too much there is nothing to search for.
  std::size_t least_of_any(const InstructionList& list);
  /// The least device memory that offloading alone does with, in all the host memory that it wants.
  std::size_t least_offloaded(const InstructionList& list);
  /// Device bytes that are alive at once in the list as it is, variables included: no placement takes less.
  std::size_t least_of(const InstructionList& list);

  /// Of the budget, for what is no variable.
  std::size_t device_capacity() const;

  /// Whether policies offload whatever the budgets are.
  bool has_forced() const { return tools_.forces_offloads && policies_.offloads; }
  bool copies_variables() const { return tools_.variables().has_homes_off_device(); }
  /// Whether a list takes more than its executions: copies.
  bool must_be_simulated() const { return has_forced() || copies_variables(); }

  bool fits(const FittedList& list) const;
  /// Host memory's and the disk's.
  bool is_within_other_tiers(const FittedList& list) const;
  /// What fits, and then what is quicker; or what comes closer, of the device last.
  bool is_better(const FittedList& a, const FittedList& b) const;

  StepTimes& times() { return times_; }

 private:
  OffloadPolicies request(const InstructionList& list, bool only_forced) const;
  Swapped planned(const InstructionList& list, bool only_forced);

  PlanningTools& tools_;
  const ListPolicies& policies_;
  const Profile& profile_;
  const std::function<void()> check_;
  StepTimes times_;
};

}  // namespace sectionflow
