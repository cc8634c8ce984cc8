#include "schedule/liveness.h"

#include <algorithm>

namespace sectionflow {
namespace {

/// Whether the output buffer may take over the bytes of the input: same size, and nobody else needs the input later, or
/// reads it in this step through another operand.
bool can_take_over(const Schedule& schedule, const Step& step, StepIndex now, int input, int output) {
  const Operand from = step.inputs[static_cast<std::size_t>(input)];
  const Operand to = step.outputs[static_cast<std::size_t>(output)];
  if (from.kind != Operand::Kind::buffer || to.kind != Operand::Kind::buffer) return false;
  const Buffer& source = schedule.buffers[static_cast<std::size_t>(from.index)];
  const Buffer& target = schedule.buffers[static_cast<std::size_t>(to.index)];
  // What a part has of something whole others have, too: parts lie over parts alone.
  if (step.parts > 1 && (source.parts == 1 || target.parts == 1)) return false;
  return target.life.first == now && source.life.last == now && source.bytes == target.bytes && source.bytes > 0 &&
         std::count(step.inputs.begin(), step.inputs.end(), from) == 1;
}

/// The pairs of a step's kernel in the order in which they are tried. A sum that is launched together with the step is
/// not stored where the result takes its bytes, so that this comes first: otherwise it would have bytes of its own,
/// while the result lies over another operand.
std::vector<InPlace> pairs_of(const Step& step, const std::vector<std::unique_ptr<Kernel>>& kernels,
                              const std::vector<int>& slot_of_maker) {
  const Kernel& kernel = *kernels[static_cast<std::size_t>(step.slot)];
  std::vector<InPlace> pairs = kernel.in_place();
  std::stable_partition(pairs.begin(), pairs.end(), [&](const InPlace& pair) {
    const Operand& from = step.inputs[static_cast<std::size_t>(pair.input)];
    const int slot = from.kind == Operand::Kind::buffer ? slot_of_maker[static_cast<std::size_t>(from.index)] : -1;
    return slot >= 0 && kernels[static_cast<std::size_t>(slot)]->chains_into(kernel, pair.input);
  });
  return pairs;
}

/// For each buffer the slot of the kernel that makes it; -1 where none does.
std::vector<int> slots_of_makers(const Schedule& schedule) {
  std::vector<int> slots(schedule.buffers.size(), -1);
  for (const Step& step : schedule.steps) {
    if (step.kind != StepKind::compute) continue;
    for (const Operand& output : step.outputs) {
      if (output.kind == Operand::Kind::buffer) slots[static_cast<std::size_t>(output.index)] = step.slot;
    }
  }
  return slots;
}

}  // namespace

StorageAssignment assign_storages(const Schedule& schedule, const std::vector<std::unique_ptr<Kernel>>& kernels,
                                  std::size_t guard_bytes) {
  StorageAssignment result;
  result.storage_of_buffer.assign(schedule.buffers.size(), -1);
  const auto own_storage = [&](std::size_t buffer) {
    const Buffer& b = schedule.buffers[buffer];
    result.storage_of_buffer[buffer] = static_cast<int>(result.storages.size());
    const std::size_t guard = b.tier == Tier::device ? guard_bytes : 0;
    result.storages.push_back({b.bytes == 0 ? 0 : b.bytes + guard, b.life, b.fixed_offset, b.tier});
  };

  const std::vector<int> slot_of_maker = slots_of_makers(schedule);
  for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
    const Step& step = schedule.steps[i];
    if (step.kind != StepKind::compute) continue;
    std::vector<int> taken;  // storages that an output of this step has taken over
    for (const InPlace& pair : pairs_of(step, kernels, slot_of_maker)) {
      if (!can_take_over(schedule, step, static_cast<StepIndex>(i), pair.input, pair.output)) continue;
      const auto from = static_cast<std::size_t>(step.inputs[static_cast<std::size_t>(pair.input)].index);
      const auto to = static_cast<std::size_t>(step.outputs[static_cast<std::size_t>(pair.output)].index);
      if (result.storage_of_buffer[from] == -1) own_storage(from);
      const int storage = result.storage_of_buffer[from];
      if (result.storage_of_buffer[to] != -1 || std::find(taken.begin(), taken.end(), storage) != taken.end()) continue;
      taken.push_back(storage);
      result.storage_of_buffer[to] = storage;
      result.storages[static_cast<std::size_t>(storage)].life.last = schedule.buffers[to].life.last;
    }
  }
  for (std::size_t buffer = 0; buffer < schedule.buffers.size(); ++buffer) {
    if (result.storage_of_buffer[buffer] == -1) own_storage(buffer);
  }
  return result;
}

}  // namespace sectionflow
