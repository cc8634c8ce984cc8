#pragma once

#include <cstdint>

#include "schedule/placement.h"

namespace sectionflow {

/// A placement with as low a peak as can be found with bounded effort; it ends as soon as `lower_bound` is reached.
/// The effort is counted, not timed: the result depends on the arguments alone.
BlockOffsets search_placement(const PlacementProblem& problem, std::int64_t lower_bound);

}  // namespace sectionflow
