#include "runtime/program.h"

#include <algorithm>
#include <array>
#include <set>

#include "base/bytes.h"
#include "runtime/budget_advice.h"
#include "runtime/build_schedule.h"
#include "runtime/check_schedule.h"
#include "runtime/queue_program.h"
#include "runtime/transient_split.h"
#include "runtime/waits.h"

namespace sectionflow {
namespace {

std::string step_text(const Schedule& schedule, StepIndex index, const Graph& graph) {
  if (schedule.steps.empty()) return "no step at all";
  const Step& step = schedule.steps[static_cast<std::size_t>(index)];
  const Node& node = graph.node(step.node);
  std::string text = node.label();
  if (step.kind == StepKind::feed) text = "feed of " + text;
  if (step.kind == StepKind::fetch) text = "fetch of " + text;
  if (node.group() != kNoGroup) {
    const std::string& name = graph.group_name(node.group());
    text += ", " + (name.empty() ? "group " + std::to_string(node.group()) : name);
  }
  return text + ", " + schedule.passes[static_cast<std::size_t>(step.pass)].text();
}

void report_fullest(const Program& program, const ConcreteGraph& graph, ProgramReport& report) {
  const StepIndex step = program.plan.fullest_step;
  report.fullest_step = step_text(program.schedule, step, graph.graph());
  std::set<int> seen;
  for (std::size_t i = 0; i < program.schedule.buffers.size(); ++i) {
    const int storage = program.storage.storage_of_buffer[i];
    const Life& life = program.storage.storages[static_cast<std::size_t>(storage)].life;
    const Buffer& buffer = program.schedule.buffers[i];
    // Of buffers in one storage the one that is alive at the step names it.
    const bool alive = buffer.tier == Tier::device && buffer.life.first <= step && step <= buffer.life.last;
    if (!alive || !life.overlaps({step, step}) || !seen.insert(storage).second) continue;
    const bool scratch = !buffer.value.valid();
    report.largest_live.push_back({scratch ? "of this operation" : buffer.value.name(),
                                   scratch ? "scratch" : graph.type(buffer.value).text(), buffer.bytes});
  }
  report.num_live = static_cast<int>(report.largest_live.size());
  std::stable_sort(report.largest_live.begin(), report.largest_live.end(),
                   [](const LiveTensor& a, const LiveTensor& b) { return a.bytes > b.bytes; });
  if (report.largest_live.size() > 8) report.largest_live.resize(8);
}

void count_transfer(const Step& step, const Schedule& schedule, ProgramReport& report) {
  const std::size_t bytes = carried_buffer(step, schedule).bytes;
  if (step.kind == StepKind::copy_out) report.bytes_out += bytes;
  if (step.kind == StepKind::copy_in) report.bytes_in += bytes;
  if (step.kind == StepKind::disk_write) report.disk_bytes_out += bytes;
  if (step.kind == StepKind::disk_read) report.disk_bytes_in += bytes;
}

ProgramReport make_report(const Program& program, const ConcreteGraph& graph, const VariableLayout& variables,
                          const TierBudgets& budgets) {
  ProgramReport report;
  report.budget_bytes = budgets.device;
  report.host_budget_bytes = budgets.host;
  report.disk_budget_bytes = budgets.disk;
  report.host_persistent_bytes = variables.home_end_bytes;
  report.host_peak_bytes = peak_behind(variables.home_end_bytes, program.plan.host, Tier::host);
  report.disk_peak_bytes = program.plan.disk.peak_bytes;
  report.persistent_bytes = variables.end_bytes;
  report.planned_peak_bytes = peak_behind(variables.end_bytes, program.plan, Tier::device);
  report.transient_bytes = report.planned_peak_bytes - report.persistent_bytes;
  // The bound counts whole multiples of kBufferAlignment, also for what lies at the top.
  report.lower_bound_bytes =
      std::min(report.planned_peak_bytes, program.transient_offset + program.plan.lower_bound_bytes);
  const TransientSplit split = split_transient(program.schedule, program.storage);
  report.border_bytes = split.border_bytes;
  report.section_bytes = split.section_bytes;
  report.fits = report.planned_peak_bytes <= budgets.device && report.host_peak_bytes <= budgets.host &&
                report.disk_peak_bytes <= budgets.disk;
  report.num_steps = static_cast<int>(program.schedule.steps.size());
  std::set<NodeId> executed;
  for (const Step& step : program.schedule.steps) {
    if (is_transfer(step.kind)) count_transfer(step, program.schedule, report);
    if (step.kind != StepKind::compute) continue;
    ++report.num_operations;
    const bool again = !executed.insert(step.node).second;
    if (again && !graph.graph().node(step.node).op().is_constant) ++report.recomputed_operations;
  }
  report_fullest(program, graph, report);
  report_largest(program, graph, report);
  return report;
}

/// The newest of the nodes that a schedule names.
NodeStamp newest_node(const Schedule& schedule, const Graph& graph) {
  NodeId newest = -1;
  const auto add = [&](const Value& value) {
    if (value.valid()) newest = std::max(newest, value.node().id());
  };
  for (const Step& step : schedule.steps) {
    newest = std::max(newest, step.node);
    for (const auto* operands : {&step.inputs, &step.outputs, &step.updated}) {
      for (const Operand& operand : *operands) {
        if (operand.kind == Operand::Kind::variable) newest = std::max(newest, static_cast<NodeId>(operand.index));
      }
    }
  }
  for (const Buffer& buffer : schedule.buffers) {
    add(buffer.value);
    for (const Value& name : buffer.other_names) add(name);
  }
  for (NodeId placeholder : schedule.feeds) newest = std::max(newest, placeholder);
  for (const FetchSlot& slot : schedule.fetches) add(slot.value);
  return newest < 0 ? NodeStamp{} : NodeStamp{newest, graph.node(newest).serial()};
}

bool completes_training(const Schedule& schedule, const Graph& graph) {
  std::set<NodeId> training;
  for (Operation operation : graph.operations(kTrainingOperations)) training.insert(operation.node().id());
  return std::any_of(schedule.steps.begin(), schedule.steps.end(),
                     [&](const Step& step) { return step.kind == StepKind::compute && training.contains(step.node); });
}

}  // namespace

Program::Program() = default;
Program::~Program() = default;
Program::Program(Program&&) noexcept = default;

std::unique_ptr<Program> compile_program(const ConcreteGraph& graph, const ScriptWriter& writer,
                                         std::size_t num_fetches, const VariableLayout& variables, Device& device,
                                         const CompileOptions& options) {
  const std::size_t guard_bytes = options.poison ? kPoisonGuardBytes : 0;
  PlanningTools tools(graph, num_fetches, variables, device, options.budgets, options.carrier, options.link_bandwidth,
                      guard_bytes);
  const Script script = writer(tools);
  Draft draft = tools.draft(script, options.edit_schedule);
  auto program = std::make_unique<Program>();
  program->schedule = std::move(draft.schedule);
  program->kernels = tools.take_kernels();
  program->storage = std::move(draft.storage);
  program->plan = std::move(draft.plan);
  add_waits(program->schedule, program->storage, program->plan);
  program->transient_offset = round_up(variables.end_bytes);
  program->host_offset = round_up(variables.home_end_bytes, alignment_of(Tier::host));
  program->advances_cycle = completes_training(program->schedule, graph.graph());
  program->report = make_report(*program, graph, variables, options.budgets);
  program->report.notes = std::move(tools.notes);
  program->report.predicted_seconds = tools.predicted_seconds;
  if (program->report.planned_peak_bytes > options.budgets.device && tools.least_device_bytes > 0) {
    program->report.planned_peak_bytes = tools.least_device_bytes;
    program->report.transient_bytes = tools.least_device_bytes - program->report.persistent_bytes;
  }
  program->report.advice = tools.advice;
  program->signature = graph.signature();
  program->newest = newest_node(program->schedule, graph.graph());
  if (options.poison) {
    program->dying.resize(program->schedule.steps.size());
    for (std::size_t i = 0; i < program->storage.storages.size(); ++i) {
      const Storage& storage = program->storage.storages[i];
      if (storage.bytes == 0 || storage.tier != Tier::device) continue;
      program->dying[static_cast<std::size_t>(storage.life.last)].push_back(static_cast<int>(i));
    }
  }
  if (options.check && !options.edit_schedule) {
    check_schedule(program->schedule, program->kernels, program->storage, program->plan, graph.graph(), guard_bytes);
  }
  return program;
}

void bind_program(Program& program, const Graph& graph, const VariableLayout& variables, std::byte* base,
                  std::byte* host) {
  const auto address = [&](const Operand& operand) -> std::byte* {
    if (operand.kind == Operand::Kind::none) return nullptr;
    const auto index = static_cast<std::size_t>(operand.index);
    if (operand.kind == Operand::Kind::variable) {
      return variables.is_at_home(operand.index) ? host + variables.home_offsets[index]
                                                 : base + variables.offsets[index];
    }
    const std::size_t offset = program.plan.offsets[static_cast<std::size_t>(program.storage.storage_of_buffer[index])];
    const Tier tier = program.schedule.buffers[index].tier;
    if (tier == Tier::disk) return nullptr;
    return tier == Tier::host ? host + program.host_offset + offset : base + program.transient_offset + offset;
  };
  // Bound wholly or not at all.
  std::vector<BoundStep> steps;
  std::array<int, kNumLanes> places{};
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
      const int storage = program.storage.storage_of_buffer[static_cast<std::size_t>(on_disk.index)];
      bound.disk_offset = program.plan.offsets[static_cast<std::size_t>(storage)];
    }
    if (step.kind == StepKind::compute) {
      bound.kernel = program.kernels[static_cast<std::size_t>(step.slot)].get();
      bound.random_ordinal = graph.node(step.node).random_ordinal();
      bound.is_update = is_update(graph.node(step.node));
    }
    if (step.workspace.kind == Operand::Kind::buffer) {
      bound.workspace = address(step.workspace);
      const std::size_t scratch = bound.kernel->workspace_bytes();
      bound.workspace_guard = bound.workspace + scratch;
      bound.workspace_guard_bytes =
          program.schedule.buffers[static_cast<std::size_t>(step.workspace.index)].bytes - scratch;
    }
    steps.push_back(std::move(bound));
  }
  program.bound = std::move(steps);
}

}  // namespace sectionflow
