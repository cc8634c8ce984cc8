#pragma once

#include <memory>
#include <vector>

#include "kernels/kernel.h"
#include "schedule/liveness.h"
#include "schedule/plan_memory.h"
#include "schedule/schedule.h"

namespace sectionflow {

/// Steps in the order of the list, launched together in the place of the last of them.
using JointSteps = std::vector<StepIndex>;

/// Which steps of the compute lane are launched together on a device with queues: as few launches as there can be when
/// a step may be put off, and none is done before its turn. Kernels of one group have one Kernel::joint_kind(). A step
/// is not put off behind one that
/// - reads or writes bytes, or a variable, that it writes, or writes what it reads: whether its own work or another's,
///   on the compute lane or a copy's;
/// - others wait for, since they may mean this one too (add_waits writes down the latest of several alone);
/// - belongs to the other half of the cycle.
/// Groups of one step are left out.
std::vector<JointSteps> join_steps(const Schedule& schedule, const std::vector<std::unique_ptr<Kernel>>& kernels,
                                   const StorageAssignment& storage, const MemoryPlan& plan);

}  // namespace sectionflow
