#pragma once

#include <memory>
#include <vector>

#include "kernels/kernel.h"
#include "schedule/liveness.h"
#include "schedule/plan_memory.h"
#include "schedule/schedule.h"

namespace sectionflow {

/// Two steps launched as one, in the place of the second.
struct ChainedSteps {
  StepIndex first = 0, second = 0;
  int operand = 0;      ///< of the second: the first's output 0
  bool stores = false;  ///< whether anybody but the second reads that output, or it has a storage of its own

  friend bool operator==(const ChainedSteps&, const ChainedSteps&) = default;
};

/// Which steps of the compute lane are chained on a device with queues: each is in one chain at most, and the first of
/// a chain goes with the nearest step that touches what it writes. Two steps are chained where
/// - the kernels offer it (Kernel::chains_into), and the second reads the first's output as one operand alone;
/// - the first may be put off up to the second, by the rules of join_steps;
/// - an element that one thread writes is read by no other: the second's output lies over inputs of the first exactly
///   or not at all, and its other operands lie apart from what the first writes.
std::vector<ChainedSteps> chain_steps(const Schedule& schedule, const std::vector<std::unique_ptr<Kernel>>& kernels,
                                      const StorageAssignment& storage, const MemoryPlan& plan);

}  // namespace sectionflow
