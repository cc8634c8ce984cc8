#include "schedule/step_accesses.h"

#include <algorithm>

namespace sectionflow {

void Touched::add(const Touched& other) {
  bytes.insert(bytes.end(), other.bytes.begin(), other.bytes.end());
  variables.insert(variables.end(), other.variables.begin(), other.variables.end());
}

bool Touched::conflicts_with(const Touched& other) const {
  const auto conflict_in = [](const auto& mine, const auto& others, const auto& overlap) {
    return std::any_of(mine.begin(), mine.end(), [&](const auto& a) {
      return std::any_of(others.begin(), others.end(),
                         [&](const auto& b) { return (a.writes || b.writes) && overlap(a, b); });
    });
  };
  return conflict_in(bytes, other.bytes,
                     [](const Access& a, const Access& b) { return a.begin < b.end && b.begin < a.end; }) ||
         conflict_in(variables, other.variables, [](Variable a, Variable b) { return a.node == b.node; });
}

Touched touched_by(const Schedule& schedule, const StorageAssignment& storage, const MemoryPlan& plan,
                   StepIndex index) {
  Touched touched;
  const Step& step = schedule.steps[static_cast<std::size_t>(index)];
  if (step.kind == StepKind::hold) return touched;
  for_each_access(schedule, storage, plan, index, [&](const Access& access) {
    if (access.tier == Tier::device && access.begin < access.end) touched.bytes.push_back(access);
  });
  const auto add_variables = [&](const std::vector<Operand>& operands, bool writes) {
    for (const Operand& operand : operands) {
      if (operand.kind == Operand::Kind::variable) touched.variables.push_back({operand.index, writes});
    }
  };
  add_variables(step.inputs, false);
  add_variables(step.outputs, true);
  add_variables(step.updated, true);
  return touched;
}

std::vector<bool> awaited_steps(const Schedule& schedule) {
  std::vector<bool> awaited(schedule.steps.size(), false);
  for (const Step& step : schedule.steps) {
    for (StepIndex earlier : step.waits) {
      const auto index = static_cast<std::size_t>(earlier);
      awaited[index] = schedule.steps[index].lane == Lane::compute;
    }
  }
  return awaited;
}

}  // namespace sectionflow
