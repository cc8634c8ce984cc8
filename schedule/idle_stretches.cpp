#include "schedule/idle_stretches.h"

#include <algorithm>

#include "graph/ops/basic.h"
#include "schedule/node_parts.h"

namespace sectionflow {
namespace {

/// The steps that use each buffer.
std::vector<std::vector<StepIndex>> uses_of_buffers(const Schedule& schedule) {
  std::vector<std::vector<StepIndex>> uses(schedule.buffers.size());
  for (std::size_t i = 0; i < schedule.buffers.size(); ++i) {
    if (schedule.buffers[i].fixed_offset) uses[i].push_back(-1);
  }
  for (StepIndex step = 0; step < static_cast<StepIndex>(schedule.steps.size()); ++step) {
    const Step& s = schedule.steps[static_cast<std::size_t>(step)];
    for (const auto* operands : {&s.inputs, &s.outputs}) {
      for (const Operand& operand : *operands) {
        if (operand.kind != Operand::Kind::buffer) continue;
        auto& of_buffer = uses[static_cast<std::size_t>(operand.index)];
        if (of_buffer.empty() || of_buffer.back() != step) of_buffer.push_back(step);
      }
    }
  }
  return uses;
}

}  // namespace

std::vector<int> instructions_of_steps(const Schedule& schedule) {
  std::vector<int> instructions(schedule.steps.size(), -1);
  // An instruction that is no step has the number of the next: the last instruction with a step's number is the step's.
  for (std::size_t instruction = 0; instruction < schedule.step_of_instruction.size(); ++instruction) {
    const auto step = static_cast<std::size_t>(schedule.step_of_instruction[instruction]);
    if (step < instructions.size()) instructions[step] = static_cast<int>(instruction);
  }
  int next = std::max(0, static_cast<int>(schedule.step_of_instruction.size()) - 1);
  for (auto instruction = instructions.rbegin(); instruction != instructions.rend(); ++instruction)
    next = *instruction = *instruction < 0 ? next : *instruction;
  return instructions;
}

std::vector<IdleStretch> idle_stretches(const Draft& draft) {
  std::vector<IdleStretch> stretches;
  const std::vector<int> instruction_of_step = instructions_of_steps(draft.schedule);
  const std::vector<int> strips = strips_of(draft.schedule.steps);
  const auto is_within_strip = [&](StepIndex after, StepIndex before) {
    const int strip = after < 0 ? -1 : strips[static_cast<std::size_t>(after)];
    return strip >= 0 && strip == strips[static_cast<std::size_t>(before)];
  };
  const auto uses = uses_of_buffers(draft.schedule);
  for (std::size_t i = 0; i < uses.size(); ++i) {
    const Buffer& buffer = draft.schedule.buffers[i];
    // Variables have transfers of their own.
    if (!buffer.value.valid() || is_variable(buffer.value)) continue;
    if (buffer.tier != Tier::device || buffer.bytes == 0) continue;
    for (std::size_t k = 1; k < uses[i].size(); ++k) {
      const StepIndex after = uses[i][k - 1], before = uses[i][k];
      const int begin = after < 0 ? 0 : instruction_of_step[static_cast<std::size_t>(after)] + 1;
      const int end = instruction_of_step[static_cast<std::size_t>(before)];
      // Between two parts of one strip nothing leaves: the one writes on what the other has begun, or reads on.
      if (begin >= end || is_within_strip(after, before)) continue;
      stretches.push_back({.value = buffer.value,
                           .begin = begin,
                           .end = end,
                           .bytes = buffer.bytes,
                           .after = after,
                           .before = before,
                           .buffer = static_cast<int>(i)});
    }
  }
  return stretches;
}

}  // namespace sectionflow
