#pragma once

#include <cstdint>

#include "schedule/planning_tools.h"

namespace sectionflow::testing_support {

/// Has idle values rest elsewhere, at random by the seed: about `share` of all stretches, from and to random lines,
/// some of them on disk if that is allowed.
Script rest_at_random(const Script& script, PlanningTools& tools, std::uint64_t seed, double share, bool disk);

}  // namespace sectionflow::testing_support
