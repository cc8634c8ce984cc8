#pragma once

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
    const std::size_t begin = plan.offsets[static_cast<std::size_t>(storage.storage_of_buffer[number])];
    visit(Access{buffer.tier, begin, begin + buffer.bytes, writes});
  };
  const Step& step = schedule.steps[static_cast<std::size_t>(index)];
  for (const Operand& input : step.inputs) visit_operand(input, false);
  for (const Operand& output : step.outputs) {
    // An output that began earlier is a kept one, which a replay reads.
    const bool begins = output.kind == Operand::Kind::buffer &&
                        schedule.buffers[static_cast<std::size_t>(output.index)].life.first == index;
    visit_operand(output, begins);
  }
  for (const Operand& updated : step.updated) visit_operand(updated, true);
  visit_operand(step.workspace, true);
}

}  // namespace sectionflow
