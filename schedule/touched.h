#pragma once

#include <vector>

#include "schedule/step_accesses.h"

namespace sectionflow {

/// What steps touch: bytes of the planned region of device memory, and variables. What copies touch off the device is
/// none of a kernel's.
struct Touched {
  struct Variable {
    int node;
    bool writes;
  };
  std::vector<Access> bytes{};
  std::vector<Variable> variables{};

  void add(const Touched& other);
  /// Whether one writes what the other reads or writes, so that the two may not change places.
  bool conflicts_with(const Touched& other) const;
};

Touched touched_by(const Schedule& schedule, const StorageAssignment& storage, const MemoryPlan& plan, StepIndex index);

/// One a step: whether it is one of the compute lane that others wait for. They may mean the steps before it too, since
/// add_waits writes down the latest of several alone: no work is put off behind such a step.
std::vector<bool> awaited_steps(const Schedule& schedule);

}  // namespace sectionflow
