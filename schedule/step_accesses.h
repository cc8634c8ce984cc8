#pragma once

#include <vector>

#include "schedule/liveness.h"
#include "schedule/plan_memory.h"
#include "schedule/schedule.h"

namespace sectionflow {

/// Bytes of a tier that a step reads or writes.
struct Access {
  Tier tier = Tier::device;
  std::size_t begin = 0, end = 0;  ///< in the planned region of the tier
  bool writes = false;
};

/// Calls visit(Access) for each buffer of the step, scratch included, reads before writes; not for variables' places.
template <class Visit>
void for_each_access(const Schedule& schedule, const StorageAssignment& storage, const MemoryPlan& plan,
                     StepIndex index, const Visit& visit) {
  const auto visit_operand = [&](const Operand& operand, bool writes) {
    if (operand.kind != Operand::Kind::buffer) return;
    const auto number = static_cast<std::size_t>(operand.index);
    const Buffer& buffer = schedule.buffers[number];
    const std::size_t begin =
        plan.offsets[static_cast<std::size_t>(storage.storage_of_buffer[number])] + operand.offset;
    visit(Access{buffer.tier, begin, begin + operand_bytes(schedule, operand), writes});
  };
  const Step& step = schedule.steps[static_cast<std::size_t>(index)];
  for (const Operand& input : step.inputs) visit_operand(input, false);
  for (const Operand& output : step.outputs) {
    // An output that began earlier is a kept one, which a replay reads, or one that parts of a node write in turn.
    const bool begins = output.kind == Operand::Kind::buffer &&
                        schedule.buffers[static_cast<std::size_t>(output.index)].life.first == index;
    visit_operand(output, begins || step.parts > 1);
  }
  for (const Operand& updated : step.updated) visit_operand(updated, true);
  visit_operand(step.workspace, true);
}

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
