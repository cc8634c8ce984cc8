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

/// The joint launches of a bound program, with all that they need, so that a launch allocates nothing.
class JointLaunches {
 public:
  /// The program must be bound, and outlive this.
  explicit JointLaunches(const Program& program);

  /// Whether the step's kernel is launched with others.
  bool contains(StepIndex index) const { return group_of_step_[static_cast<std::size_t>(index)] >= 0; }
  /// In the turn of a step of a group: launches all of it when this is its last.
  void reach(StepIndex index, void* queue, const RandomState* random_state);

 private:
  struct Group {
    StepIndex last = 0;
    std::vector<Kernel*> kernels;
    std::vector<KernelArguments> arguments;
  };

  std::vector<Group> groups_;
  std::vector<int> group_of_step_;  // -1: none
};

}  // namespace sectionflow
