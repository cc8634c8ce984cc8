#pragma once

#include "sections/section_policies.h"

namespace sectionflow {

/// Writes the instruction list of a cycle some of whose sections have InteriorPolicy::automatic: of their interiors,
/// and of border tensors that may be offloaded, as much stays on the device as the budgets leave room for; the rest is
/// computed again or offloaded to host memory, what frees most bytes for the least time first.
///
/// More device or host memory never makes a cycle that is predicted to be slower, or one that does not fit.
///
/// A budget in which neither everything that stays nor everything that goes fits is refused, whatever lies between: so
/// the smallest budget does not depend on the search.
InstructionList search_interior(PlanningTools& tools, const CycleRequest& request, const CyclePolicies& policies);

}  // namespace sectionflow
