#pragma once

#include <memory>
#include <vector>

#include "base/random.h"
#include "kernels/kernel.h"
#include "runtime/liveness.h"
#include "runtime/plan_memory.h"
#include "runtime/program.h"
#include "runtime/schedule.h"

namespace sectionflow {

/// Two steps launched as one, in the place of the second.
struct ChainedSteps {
  StepIndex first = 0, second = 0;
  int operand = 0;      ///< of the second: the first's output 0
  bool stores = false;  ///< whether anybody but the second reads that output

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

/// The chains of a bound program, with all that they need, so that a launch allocates nothing.
class ChainLaunches {
 public:
  /// The program must be bound, and outlive this.
  explicit ChainLaunches(const Program& program);

  /// Whether the step's kernel is launched in a chain.
  bool contains(StepIndex index) const { return chain_of_step_[static_cast<std::size_t>(index)] >= 0; }
  /// In the turn of a step of a chain: launches it when this is its second.
  void reach(StepIndex index, void* queue, const RandomState* random_state);

 private:
  struct Chain {
    ChainedSteps steps;
    Kernel* first = nullptr;
    Kernel* second = nullptr;
    KernelArguments first_arguments, second_arguments;
  };

  std::vector<Chain> chains_;
  std::vector<int> chain_of_step_;  // -1: none
};

}  // namespace sectionflow
