#pragma once

#include <cstdint>

#include "schedule/planning_tools.h"

namespace sectionflow::testing_support {

/// Offloads idle values at random, by the seed: about `share` of all stretches, from and to random instructions,
/// some of them to disk if that is allowed.
InstructionList offload_at_random(const InstructionList& list, PlanningTools& tools, std::uint64_t seed, double share,
                                  bool disk);

}  // namespace sectionflow::testing_support
