#pragma once

#include "schedule/planning_tools.h"
#include "swap/swap_request.h"

namespace sectionflow {

/// Has values rest in host memory, and on disk where that is full, so that the program fits the budgets of all tiers,
/// and loses as little time as the profile lets expect. Automatic stretches rest only where the budgets want it; forced
/// ones always. Where nothing fits, the result is the script that comes closest. The tools' notes tell what travels
/// and why, and their predicted_seconds how long a cycle is going to take.
///
/// Deterministic: the script, the budgets and the profile decide. More device or host memory never makes a plan
/// that is predicted to be slower, or one that does not fit.
Script insert_swaps(const Script& script, PlanningTools& tools, const SwapRequest& request = {});

}  // namespace sectionflow
