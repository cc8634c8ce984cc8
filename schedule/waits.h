#pragma once

#include "schedule/liveness.h"
#include "schedule/schedule.h"

namespace sectionflow {

/// Sets `Step::waits` from a finished plan: what of the list's order must be kept when lanes run beside each other.
/// A step that reads bytes waits for the step that wrote them; a step that writes bytes, for every earlier reader and
/// writer of them, be it of the same buffer or of one that lay there before. A step that carries bytes between tiers
/// also waits for the compute step before it in the list, its point of issue: prefetching begins where the plan says.
/// What follows from other waits is left out.
void add_waits(Schedule& schedule, const StorageAssignment& storage, const MemoryPlan& plan);

}  // namespace sectionflow
