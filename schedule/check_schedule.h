#pragma once

#include <memory>
#include <vector>

#include "kernels/kernel.h"
#include "schedule/liveness.h"
#include "schedule/plan_memory.h"
#include "schedule/schedule.h"

namespace sectionflow {

/// Re-derives from a finished plan, by simulating it byte range by byte range, that every read finds the bytes that
/// were written for it, that no write destroys bytes that are read later, that an output lies over an input only where
/// the kernel allows it, that no variable is read after its update, that lanes which run beside each other conflict
/// nowhere, and that the highest byte of each tier, in device memory with `guard_bytes` behind it, is the stated peak.
/// Shares no code with liveness or plan_memory. Throws: InternalError naming the step.
void check_schedule(const Schedule& schedule, const std::vector<std::unique_ptr<Kernel>>& kernels,
                    const StorageAssignment& storage, const MemoryPlan& plan, const Graph& graph,
                    std::size_t guard_bytes);

}  // namespace sectionflow
