#include "runtime/executable.h"

#include <array>
#include <set>
#include <utility>

#include "runtime/queue_program.h"
#include "schedule/prepare_kernels.h"

namespace sectionflow {

Executable::Executable(Program&& program) : Program(std::move(program)) {}
Executable::~Executable() = default;
Executable::Executable(Executable&&) noexcept = default;

void bind_program(Executable& program, const Graph& graph, const VariableLayout& variables, std::byte* base,
                  std::byte* host) {
  const auto address = [&](const Operand& operand) -> std::byte* {
    if (operand.kind == Operand::Kind::none) return nullptr;
    const auto index = static_cast<std::size_t>(operand.index);
    if (operand.kind == Operand::Kind::variable) {
      if (variables.has_disk_home(operand.index)) return nullptr;
      return operand.offset + (variables.has_host_home(operand.index) ? host + variables.host_offsets[index]
                                                                      : base + variables.offsets[index]);
    }
    const std::size_t offset =
        program.plan.offsets[static_cast<std::size_t>(program.storage.storage_of_buffer[index])] + operand.offset;
    const Tier tier = program.schedule.buffers[index].tier;
    if (tier == Tier::disk) return nullptr;
    return tier == Tier::host ? host + program.host_offset + offset : base + program.transient_offset + offset;
  };
  // Bound wholly or not at all.
  std::vector<BoundStep> steps;
  std::array<int, kNumLanes> places{};
  std::set<int> written;  // variables whose home is on disk, by steps so far
  for (const Step& step : program.schedule.steps) {
    BoundStep bound;
    bound.place_in_lane = places[static_cast<std::size_t>(step.lane)]++;
    for (const Operand& input : step.inputs) bound.inputs.push_back(address(input));
    for (const Operand& output : step.outputs) bound.outputs.push_back(address(output));
    for (const Operand& variable : step.updated) bound.updated.push_back(address(variable));
    if (is_transfer(step.kind)) {
      bound.bytes = carried_buffer(step, program.schedule).bytes;
    }
    if (step.kind == StepKind::disk_read || step.kind == StepKind::disk_write) {
      const Operand& on_disk = step.kind == StepKind::disk_read ? step.inputs[0] : step.outputs[0];
      const auto index = static_cast<std::size_t>(on_disk.index);
      if (on_disk.kind == Operand::Kind::variable) {
        bound.disk_offset = variables.disk_offsets[index];
        if (step.kind == StepKind::disk_write) written.insert(on_disk.index);
        bound.is_before_first_value = program.report.initializes && !written.contains(on_disk.index);
      } else {
        const auto storage = static_cast<std::size_t>(program.storage.storage_of_buffer[index]);
        bound.disk_offset = program.disk_offset + program.plan.offsets[storage];
      }
    }
    if (step.kind == StepKind::compute) {
      bound.kernel = program.kernels[static_cast<std::size_t>(step.slot)].get();
      bound.random_ordinal = graph.node(step.node).random_ordinal();
      bound.is_update = graph.node(step.node).op().is_update();
    }
    if (step.workspace.kind == Operand::Kind::buffer) {
      bound.workspace = address(step.workspace);
      const std::size_t scratch = bound.kernel->workspace_bytes();
      bound.workspace_guard = bound.workspace + scratch;
      // Steps that have a buffer in turn guard what is next to their own scratch.
      bound.workspace_guard_bytes = guarded_scratch(scratch) - scratch;
    }
    steps.push_back(std::move(bound));
  }
  program.bound = std::move(steps);
}

}  // namespace sectionflow
