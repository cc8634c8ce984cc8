#include "swap/insert_swaps.h"

#include <utility>

#include "swap/swap_notes.h"
#include "swap/swap_planner.h"

namespace sectionflow {
InstructionList insert_swaps(const InstructionList& list, PlanningTools& tools, const SwapRequest& request) {
  const Profile nominal = Profile::nominal();
  SwapPlanner planner(list, tools, request, request.profile != nullptr ? *request.profile : nominal);
  SwapPlan plan = planner.plan();
  tools.predicted_seconds = plan.prediction.seconds;
  tools.least_device_bytes = planner.smallest_budget();
  tools.minimum_is_exact = tools.minimum_is_exact && planner.smallest_is_exact();
  for (std::string& note : swap_notes(planner.problem(), plan.decisions, plan.prediction)) {
    tools.notes.push_back(std::move(note));
  }
  return std::move(plan.list);
}

}  // namespace sectionflow
