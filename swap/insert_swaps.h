#pragma once

#include "schedule/planning_tools.h"
#include "swap/swap_request.h"

namespace sectionflow {

/// Offloads values to host memory, and to disk where that is full, so that the program fits the budgets of all tiers,
/// and loses as little time as the profile lets expect. In automatic stretches a value is offloaded only where the
/// budgets want it; in forced ones always. Where nothing fits, the result is the instruction list that comes closest.
/// The tools' notes tell what is offloaded and why, and their predicted_seconds how long a cycle is going to take.
///
/// Deterministic: the instruction list, the budgets and the profile decide. More device or host memory never makes a
/// plan that is predicted to be slower, or one that does not fit.
InstructionList insert_swaps(const InstructionList& list, PlanningTools& tools, const SwapRequest& request = {});

}  // namespace sectionflow
