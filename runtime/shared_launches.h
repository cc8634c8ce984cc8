#pragma once

#include <vector>

#include "base/random.h"
#include "kernels/kernel.h"
#include "runtime/executable.h"
#include "schedule/chained_steps.h"
#include "schedule/joint_steps.h"

namespace sectionflow {

/// The joint launches of a bound program, with all that they need, so that a launch allocates nothing.
class JointLaunches {
 public:
  /// The program must be bound, and outlive this.
  explicit JointLaunches(const Executable& program);

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

/// The chains of a bound program, with all that they need, so that a launch allocates nothing.
class ChainLaunches {
 public:
  /// The program must be bound, and outlive this.
  explicit ChainLaunches(const Executable& program);

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
