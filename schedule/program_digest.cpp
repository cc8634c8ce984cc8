#include "schedule/program_digest.h"

#include <algorithm>

#include "graph/nodes/control.h"
#include "schedule/program.h"
#include "schedule/schedule.h"

namespace sectionflow {
namespace {

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

NodeId first_unplaced(const Schedule& schedule, const VariableLayout& variables) {
  for (const Step& step : schedule.steps) {
    for (const auto* operands : {&step.inputs, &step.updated}) {
      for (const Operand& operand : *operands) {
        if (operand.kind == Operand::Kind::variable && !variables.contains(operand.index)) return operand.index;
      }
    }
  }
  return -1;
}

void list_steps(const Schedule& schedule, const Graph& graph, bool has_queues, ProgramDigest& digest) {
  int pass = -1;
  for (StepIndex i = 0; i < static_cast<StepIndex>(schedule.steps.size()); ++i) {
    const Step& step = schedule.steps[static_cast<std::size_t>(i)];
    if (step.pass != pass) digest.pass_begins.push_back(i);
    pass = step.pass;
    if (has_queues ? !is_queue(step.lane) : step.lane != Lane::compute) digest.beside.push_back(i);
    if (step.lane == Lane::communicate) digest.communications.push_back(i);
    if (step.kind == StepKind::feed) digest.feeds.push_back(i);
    if (step.kind == StepKind::fetch) digest.fetches.push_back(i);
    const bool is_first = step.kind == StepKind::compute && !step.replay;
    if (is_first && assertion_of(graph.node(step.node)) != nullptr) digest.assertions.push_back(i);
  }
}

ForwardHalfFigures forward_half(const Program& program) {
  const StepIndex half = program.schedule.half;
  ForwardHalfFigures figures;
  for (StepIndex i = 0; i < half; ++i) {
    const Step& step = program.schedule.steps[static_cast<std::size_t>(i)];
    if (step.kind == StepKind::copy_out) figures.bytes_out += carried_buffer(step, program.schedule).bytes;
  }
  for (std::size_t i = 0; i < program.storage.storages.size(); ++i) {
    const Storage& storage = program.storage.storages[i];
    if (storage.life.first >= half) continue;
    const bool stays = storage.life.last >= half;
    std::size_t& end = figures.ends[static_cast<std::size_t>(storage.tier)];
    if (storage.bytes > 0) end = std::max(end, program.plan.offsets[i] + storage.bytes);
    if (!stays) ++figures.num_ended;
    if (storage.tier != Tier::device) continue;
    figures.largest_device_bytes = std::max(figures.largest_device_bytes, storage.bytes);
    if (stays) figures.waiting_device_bytes += storage.bytes;
  }
  return figures;
}

}  // namespace

std::span<const StepIndex> steps_between(const std::vector<StepIndex>& steps, StepIndex first, StepIndex last) {
  const auto begin = std::lower_bound(steps.begin(), steps.end(), first);
  return {begin, std::lower_bound(begin, steps.end(), last)};
}

ProgramDigest digest_of(const Program& program, const Graph& graph, const VariableLayout& variables, bool has_queues) {
  ProgramDigest digest;
  digest.newest = newest_node(program.schedule, graph);
  digest.first_unplaced = first_unplaced(program.schedule, variables);
  list_steps(program.schedule, graph, has_queues, digest);
  for (const Storage& storage : program.storage.storages) {
    if (storage.tier == Tier::device)
      digest.largest_device_bytes = std::max(digest.largest_device_bytes, storage.bytes);
  }
  digest.forward = forward_half(program);
  return digest;
}

}  // namespace sectionflow
