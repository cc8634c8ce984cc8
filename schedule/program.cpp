#include "schedule/program.h"

#include <algorithm>
#include <set>

#include "base/bytes.h"
#include "base/error.h"
#include "schedule/budget_advice.h"
#include "schedule/check_schedule.h"
#include "schedule/micro_batches.h"
#include "schedule/node_parts.h"
#include "schedule/ranks.h"
#include "schedule/transient_split.h"
#include "schedule/waits.h"

namespace sectionflow {
namespace {

std::string step_text(const Schedule& schedule, StepIndex index, const Graph& graph) {
  if (schedule.steps.empty()) return "no step at all";
  const Step& step = schedule.steps[static_cast<std::size_t>(index)];
  const Node& node = graph.node(step.node);
  std::string text = label_of(step, graph);
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
    report.largest_live.push_back({!scratch                      ? buffer.value.name()
                                   : is_scratch_of_ranks(buffer) ? "of sums over ranks"
                                                                 : "of this operation",
                                   scratch ? "scratch" : type_text(buffer, graph), buffer.bytes});
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
  report.host_persistent_bytes = variables.host_end_bytes;
  report.host_peak_bytes = peak_behind(variables.host_end_bytes, program.plan.host, Tier::host);
  report.disk_persistent_bytes = variables.disk_end_bytes;
  report.disk_peak_bytes = peak_behind(variables.disk_end_bytes, program.plan.disk, Tier::disk);
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
    if (step.lane == Lane::communicate) report.bytes_communicated += exchanged_bytes(graph, step.node);
    if (step.kind != StepKind::compute || step.part > 0) continue;
    ++report.num_operations;
    const bool again = !executed.insert(step.node).second;
    if (again && !graph.graph().node(step.node).op().is_constant()) ++report.recomputed_operations;
  }
  report_fullest(program, graph, report);
  report_largest(program, graph, report);
  return report;
}

bool completes_training(const Schedule& schedule, const Graph& graph) {
  std::set<NodeId> training;
  for (Operation operation : graph.operations(kTrainingOperations)) training.insert(operation.node().id());
  return std::any_of(schedule.steps.begin(), schedule.steps.end(),
                     [&](const Step& step) { return step.kind == StepKind::compute && training.contains(step.node); });
}

}  // namespace

Program compile_program(const ConcreteGraph& graph, const InstructionWriter& writer, std::size_t num_fetches,
                        const VariableLayout& variables, Device& device, const CompileOptions& options) {
  const std::size_t guard_bytes = options.poison ? kPoisonGuardBytes : 0;
  PlanningTools tools(graph, num_fetches, variables, device, options.budgets, options.carrier, options.link_bandwidth,
                      guard_bytes);
  const InstructionList list = writer(tools);
  Draft draft = tools.draft(list, options.edit_schedule);
  Program program;
  program.schedule = std::move(draft.schedule);
  program.kernels = tools.take_kernels();
  program.storage = std::move(draft.storage);
  program.plan = std::move(draft.plan);
  add_waits(program.schedule, program.storage, program.plan);
  program.transient_offset = round_up(variables.end_bytes);
  program.host_offset = round_up(variables.host_end_bytes, alignment_of(Tier::host));
  program.disk_offset = round_up(variables.disk_end_bytes, alignment_of(Tier::disk));
  program.advances_cycle = completes_training(program.schedule, graph.graph());
  program.micro_batch = micro_batch_counter(program.schedule, graph.graph());
  const bool trains = program.advances_cycle || program.micro_batch;
  if (trains || communicates(program.schedule)) {
    check_communications(program.schedule, graph.graph());
    program.ranks = ranks_of(graph.graph());
  }
  if (trains && program.ranks > 1) check_equal_updates(program.schedule, graph);
  program.report = make_report(program, graph, variables, options.budgets);
  program.report.notes = std::move(tools.notes);
  program.report.predicted_seconds = tools.predicted_seconds;
  if (program.report.planned_peak_bytes > options.budgets.device && tools.least_device_bytes > 0) {
    // The step and its tensors are those of the program at hand, not of what would take the least.
    if (program.report.planned_peak_bytes != tools.least_device_bytes) {
      program.report.fullest_step += text_of(", of a plan that takes ", bytes_text(program.report.planned_peak_bytes));
    }
    program.report.planned_peak_bytes = tools.least_device_bytes;
    program.report.transient_bytes = tools.least_device_bytes - program.report.persistent_bytes;
  }
  program.report.minimum_is_exact = tools.minimum_is_exact && program.report.host_peak_bytes <= options.budgets.host &&
                                    program.report.disk_peak_bytes <= options.budgets.disk;
  program.report.minimum_is_enough = program.report.minimum_is_exact || tools.minimum_is_enough;
  program.report.forces_offloads = tools.forces_offloads || program.report.is_edited;
  program.report.advice = tools.advice;
  program.report.first_advice = tools.first_advice;
  program.signature = graph.signature();
  program.digest = digest_of(program, graph.graph(), variables, device.queues() != nullptr);
  const std::size_t capacity = options.budgets.device - std::min(options.budgets.device, program.transient_offset);
  if (device.queues() != nullptr && program.report.fits) {
    program.feeds_ahead = place_feeds_ahead(program, capacity);
    program.report.feeds_ahead_bytes =
        program.feeds_ahead.end - std::min(program.feeds_ahead.end, program.plan.peak_bytes);
  }
  if (options.poison) {
    program.dying.resize(program.schedule.steps.size());
    for (std::size_t i = 0; i < program.storage.storages.size(); ++i) {
      const Storage& storage = program.storage.storages[i];
      if (storage.bytes == 0 || storage.tier != Tier::device) continue;
      program.dying[static_cast<std::size_t>(storage.life.last)].push_back(static_cast<int>(i));
    }
  }
  if (options.check && !options.edit_schedule) {
    check_schedule(program.schedule, program.kernels, program.storage, program.plan, graph.graph(), guard_bytes);
    check_feeds_ahead(program, capacity);
  }
  return program;
}

std::vector<EntryValue> left_by_forward_half(const Program& forward) {
  std::vector<EntryValue> entries;
  const Schedule& schedule = forward.schedule;
  for (std::size_t i = 0; i < schedule.buffers.size(); ++i) {
    const Buffer& buffer = schedule.buffers[i];
    const bool crosses = buffer.life.first < schedule.half && buffer.life.last >= schedule.half;
    if (!crosses) continue;
    const auto storage = static_cast<std::size_t>(forward.storage.storage_of_buffer[i]);
    entries.push_back({.value = buffer.value,
                       .offset = forward.plan.offsets[storage],
                       .other_names = buffer.other_names,
                       .tier = buffer.tier,
                       .offload = buffer.offload});
  }
  return entries;
}

}  // namespace sectionflow
