#pragma once

#include <cstdint>

#include "schedule/planning_tools.h"
#include "swap/profile.h"

namespace sectionflow {

/// What fit_list is asked for.
struct FitRequest {
  const Profile* profile = nullptr;  ///< nullptr: Profile::nominal()
  bool may_recompute = true;
  bool may_swap = true;
  bool order_fixed = false;  ///< first executions stay in the list's order
  std::int64_t effort = 0;   ///< moves of the search for what is computed again; 0: default_frontier_effort
};

/// The list with what the budgets demand, and no more: values are dropped and computed again, or offloaded to host
/// memory and disk, as is predicted to take the least time. A list that fits stays as it is, and so does one that
/// begins with values that were there before, or that offloads by itself, but for more offloads. Where nothing fits,
/// the result is what comes closest. The tools' notes tell what was chosen, and their predicted_seconds how long it is
/// going to take.
///
/// Deterministic: list, budgets, profile and effort decide. More device or host memory is never predicted to be slower.
InstructionList fit_list(const InstructionList& list, PlanningTools& tools, const FitRequest& request = {});

}  // namespace sectionflow
