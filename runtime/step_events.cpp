#include "runtime/step_events.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/error.h"

namespace sectionflow {

StepEvents::StepEvents(const Program& program) : program_(program) {
  const std::size_t num_steps = program.schedule.steps.size();
  for (auto& bytes : alive_) bytes.assign(num_steps + 1, 0);
  // What comes and goes with each step; sums of it are never below 0, differences may be, and wrap around.
  for (const Storage& storage : program.storage.storages) {
    std::vector<std::size_t>& bytes = alive_[static_cast<std::size_t>(storage.tier)];
    bytes[static_cast<std::size_t>(storage.life.first)] += storage.bytes;
    bytes[static_cast<std::size_t>(storage.life.last) + 1] -= storage.bytes;
  }
  for (auto& bytes : alive_) std::partial_sum(bytes.begin(), bytes.end(), bytes.begin());
}

Trace::Event StepEvents::event(StepIndex index) const {
  const Schedule& schedule = program_.schedule;
  const Step& step = schedule.steps[static_cast<std::size_t>(index)];
  Trace::Event event{.node = step.node,
                     .pass = schedule.passes[static_cast<std::size_t>(step.pass)],
                     .replay = step.replay,
                     .kind = step.kind,
                     .lane = step.lane,
                     .offload = step.offload,
                     .step = index,
                     .program = program_.number,
                     .variable_bytes = program_.report.persistent_bytes,
                     .part = step.part,
                     .parts = step.parts};
  const auto alive = [&](Tier tier) { return alive_[static_cast<std::size_t>(tier)][static_cast<std::size_t>(index)]; };
  event.live_bytes = alive(Tier::device);
  event.host_bytes = alive(Tier::host);
  event.disk_bytes = alive(Tier::disk);
  if (is_transfer(step.kind)) event.bytes = carried_buffer(step, schedule).bytes;
  if (step.kind == StepKind::compute) {
    for (const Operand& output : step.outputs) {
      if (output.kind != Operand::Kind::buffer) continue;
      event.output_bytes += operand_bytes(schedule, output);
    }
    if (step.workspace.kind == Operand::Kind::buffer) {
      event.workspace_bytes = schedule.buffers[static_cast<std::size_t>(step.workspace.index)].bytes;
    }
  }
  return event;
}

std::vector<TimeSpan> step_spans(const Program& program, const Trace& trace, const std::string& what) {
  const std::vector<Step>& steps = program.schedule.steps;
  const std::span<const Trace::Event> events = trace.last_execution();
  SF_CHECK_CODE(events.size() == steps.size(), ArgumentError, ErrorCode::other_trace, what, ": the trace ends with ",
                events.size(), " steps of one execution; the program that the session planned or ran last has ",
                steps.size(), hint("trace a run of that program, or plan that one again"));
  double origin = std::numeric_limits<double>::max();
  for (const Trace::Event& event : events) origin = std::min(origin, event.start_us);
  std::vector<TimeSpan> spans(steps.size());
  for (const Trace::Event& event : events) {
    const auto index = static_cast<std::size_t>(event.step);
    const bool fits = index < steps.size() && steps[index].kind == event.kind && steps[index].node == event.node;
    SF_CHECK_CODE(fits, ArgumentError, ErrorCode::other_trace, what,
                  ": the trace is of another program than the session planned or ran last",
                  hint("trace a run of that program, or plan that one again"));
    spans[index] = {event.start_us - origin, event.start_us - origin + event.duration_us};
  }
  return spans;
}

std::vector<TimeSpan> storage_stays(const Program& program, const std::vector<TimeSpan>& steps) {
  std::vector<TimeSpan> stays;
  if (steps.empty()) return stays;
  for (const Storage& storage : program.storage.storages) {
    stays.push_back({steps[static_cast<std::size_t>(storage.life.first)].start,
                     steps[static_cast<std::size_t>(storage.life.last)].end});
  }
  const auto touch = [&](const Operand& operand, const TimeSpan& step) {
    if (operand.kind != Operand::Kind::buffer) return;
    const int storage = program.storage.storage_of_buffer[static_cast<std::size_t>(operand.index)];
    TimeSpan& stay = stays[static_cast<std::size_t>(storage)];
    stay = {std::min(stay.start, step.start), std::max(stay.end, step.end)};
  };
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const Step& step = program.schedule.steps[i];
    for (const Operand& input : step.inputs) touch(input, steps[i]);
    for (const Operand& output : step.outputs) touch(output, steps[i]);
    touch(step.workspace, steps[i]);
  }
  return stays;
}

Pass pass_of(const Program& program, const Graph& graph, const Step& step) {
  Pass pass = program.schedule.passes[static_cast<std::size_t>(step.pass)];
  if (pass.section == kNoGroup) pass.section = graph.node(step.node).group();
  return pass;
}

GroupId section_of(const Program& program, const Graph& graph, const Buffer& buffer) {
  if (buffer.value.valid()) return graph.node(buffer.value.node().id()).group();
  return pass_of(program, graph, program.schedule.steps[static_cast<std::size_t>(buffer.life.first)]).section;
}

std::string section_name(const Graph& graph, GroupId section) {
  if (section == kNoGroup) return "outside of sections";
  const std::string& name = graph.group_name(section);
  return name.empty() ? text_of("section ", section) : name;
}

}  // namespace sectionflow
