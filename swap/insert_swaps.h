#pragma once

#include <functional>

#include "schedule/idle_stretches.h"
#include "schedule/planning_tools.h"
#include "swap/profile.h"

namespace sectionflow {

/// What insert_swaps is asked for.
struct SwapRequest {
  std::function<Placement(const IdleStretch&)> placement{};  ///< absent: automatic for all
  /// The first instruction before which the value may come back to the device; absent: the planner's choice. Where it
  /// is asked, instructions before the stretch count as its first, and instructions behind it as its last.
  std::function<int(const IdleStretch&)> earliest_return{};
  const Profile* profile = nullptr;  ///< nullptr: Profile::nominal()
};

/// Offloads values to host memory, and to disk where that is full, so that the program fits the budgets of all tiers,
/// and loses as little time as the profile lets expect. In automatic stretches a value is offloaded only where the
/// budgets want it; in forced ones always. Where nothing fits, the result is the instruction list that comes closest.
/// The tools' notes tell what is offloaded and why, and their predicted_seconds how long a cycle is going to take.
///
/// Deterministic: the instruction list, the budgets and the profile decide. More device or host memory never makes a
/// plan that is predicted to be slower, or one that does not fit.
InstructionList insert_swaps(const InstructionList& list, PlanningTools& tools, const SwapRequest& request = {});

}  // namespace sectionflow
