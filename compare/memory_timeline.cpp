#include "compare/memory_timeline.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "base/error.h"
#include "runtime/engine.h"
#include "runtime/step_events.h"

namespace sectionflow {
namespace {

using Sample = MemoryTimeline::Sample;
using Bar = MemoryTimeline::Bar;

/// Steps one after the other, each as long as any.
std::vector<TimeSpan> planned_spans(const Schedule& schedule) {
  std::vector<TimeSpan> spans;
  for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
    spans.push_back({static_cast<double>(i), static_cast<double>(i + 1)});
  }
  return spans;
}

/// In milliseconds.
std::vector<TimeSpan> traced_spans(const Program& program, const Trace& trace) {
  std::vector<TimeSpan> spans = step_spans(program, trace, "timeline_of");
  for (TimeSpan& span : spans) span = {span.start / 1e3, span.end / 1e3};
  return spans;
}

/// The layers, and of each storage in device memory which it belongs to.
std::vector<int> assign_layers(const Program& program, const Graph& graph, MemoryTimeline& timeline) {
  std::vector<GroupId> sections(program.storage.storages.size(), kNoGroup);
  std::map<GroupId, int> layers;
  for (std::size_t i = program.schedule.buffers.size(); i-- > 0;) {
    const Buffer& buffer = program.schedule.buffers[i];
    const auto storage = static_cast<std::size_t>(program.storage.storage_of_buffer[i]);
    sections[storage] = section_of(program, graph, buffer);
  }
  for (std::size_t i = 0; i < sections.size(); ++i) {
    const Storage& storage = program.storage.storages[i];
    if (storage.tier == Tier::device && storage.bytes > 0) layers[sections[i]] = 0;
  }
  timeline.layers = {{.name = "variables"}};
  for (auto& [section, layer] : layers) {
    layer = static_cast<int>(timeline.layers.size());
    timeline.layers.push_back({.name = section_name(graph, section), .section = section});
  }
  std::vector<int> of_storage;
  for (GroupId section : sections) of_storage.push_back(layers[section]);
  return of_storage;
}

struct Change {
  double at = 0;
  bool begins = false;
  std::size_t storage = 0;
};

std::vector<Change> changes_of(const std::vector<TimeSpan>& stays) {
  std::vector<Change> changes;
  for (std::size_t i = 0; i < stays.size(); ++i) {
    changes.push_back({stays[i].start, true, i});
    changes.push_back({stays[i].end, false, i});
  }
  // What ends goes before what begins at the same time.
  std::stable_sort(changes.begin(), changes.end(),
                   [](const Change& a, const Change& b) { return a.at != b.at ? a.at < b.at : a.begins < b.begins; });
  return changes;
}

void add_samples(const Program& program, const std::vector<TimeSpan>& steps, const std::vector<int>& layer_of,
                 MemoryTimeline& timeline) {
  Sample now{.device = std::vector<std::size_t>(timeline.layers.size(), 0)};
  now.device[0] = program.report.persistent_bytes;
  timeline.samples.push_back(now);
  for (const Change& change : changes_of(storage_stays(program, steps))) {
    const Storage& storage = program.storage.storages[change.storage];
    std::size_t& bytes = storage.tier == Tier::host   ? now.host
                         : storage.tier == Tier::disk ? now.disk
                                                      : now.device[static_cast<std::size_t>(layer_of[change.storage])];
    bytes = change.begins ? bytes + storage.bytes : bytes - storage.bytes;
    if (change.at > timeline.samples.back().at) timeline.samples.emplace_back();
    now.at = change.at;
    timeline.samples.back() = now;
  }
}

std::string pass_name(const Pass& pass, const Graph& graph) {
  return pass.kind == Pass::Kind::whole ? section_name(graph, pass.section) : pass.text();
}

Bar copy_bar(const Program& program, const Graph& graph, const Step& step, const TimeSpan& span) {
  // What is copied in from a variable's home tier has a buffer at its other end alone.
  const bool from_home_tier = step.inputs[0].kind == Operand::Kind::variable;
  const Operand& end = from_home_tier ? step.outputs[0] : step.inputs[0];
  const Buffer& buffer = program.schedule.buffers[static_cast<std::size_t>(end.index)];
  return {.kind = step.kind,
          .start = span.start,
          .end = span.end,
          .name = buffer.value.valid() ? buffer.value.name() : graph.node(step.node).name(),
          .bytes = buffer.bytes,
          .offload = step.offload};
}

Bar communication_bar(const Program& program, const Graph& graph, const Step& step, const TimeSpan& span) {
  std::size_t bytes = 0;
  for (const Operand& output : step.outputs) bytes += operand_bytes(program.schedule, output);
  return {
      .start = span.start, .end = span.end, .name = graph.node(step.node).name(), .bytes = bytes, .communicates = true};
}

/// Stretches of one pass in the compute lane without a long pause, and all copies and communications.
void add_bars(const Program& program, const Graph& graph, const std::vector<TimeSpan>& steps,
              MemoryTimeline& timeline) {
  const double longest_pause = timeline.timed ? timeline.end / 400 : 0;
  std::vector<Bar> copies;
  bool interrupted = true;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const Step& step = program.schedule.steps[i];
    if (is_transfer(step.kind)) {
      copies.push_back(copy_bar(program, graph, step, steps[i]));
      interrupted = interrupted || (timeline.timed && step.lane == Lane::compute);
      continue;
    }
    if (step.lane == Lane::communicate) {
      copies.push_back(communication_bar(program, graph, step, steps[i]));
      continue;
    }
    const Pass pass = pass_of(program, graph, step);
    const Bar* last = timeline.bars.empty() ? nullptr : &timeline.bars.back();
    const bool goes_on = !interrupted && last != nullptr && last->pass.kind == pass.kind &&
                         last->pass.section == pass.section && steps[i].start - last->end <= longest_pause;
    if (!goes_on) timeline.bars.push_back({.start = steps[i].start, .name = pass_name(pass, graph), .pass = pass});
    timeline.bars.back().end = steps[i].end;
    interrupted = false;
  }
  timeline.bars.insert(timeline.bars.end(), copies.begin(), copies.end());
}

}  // namespace

std::size_t Sample::device_bytes() const {
  return std::accumulate(device.begin(), device.end(), std::size_t{0});
}

MemoryTimeline timeline_of(const Session& session, const Trace* trace) {
  const Program* latest = engine(session).latest_program();
  SF_CHECK(latest != nullptr, ArgumentError, "timeline_of: the session has no program that it planned or ran last",
           hint("call its plan() or run() first"));
  const Program& program = *latest;
  const Graph& graph = session.graph();
  MemoryTimeline timeline;
  timeline.timed = trace != nullptr;
  timeline.device_peak_bytes = program.report.planned_peak_bytes;
  timeline.host_peak_bytes = program.report.host_peak_bytes;
  timeline.disk_peak_bytes = program.report.disk_peak_bytes;
  const std::vector<TimeSpan> steps = timeline.timed ? traced_spans(program, *trace) : planned_spans(program.schedule);
  for (const TimeSpan& step : steps) timeline.end = std::max(timeline.end, step.end);
  const std::vector<int> layer_of = assign_layers(program, graph, timeline);
  add_samples(program, steps, layer_of, timeline);
  add_bars(program, graph, steps, timeline);
  return timeline;
}

std::vector<Sample> columns_of(const MemoryTimeline& timeline, int columns) {
  SF_CHECK(columns >= 1, ArgumentError, "columns_of: ", columns, " columns; wanted 1 at least");
  std::vector<Sample> result;
  std::size_t next = 0;
  Sample alive = timeline.samples.empty() ? Sample{} : timeline.samples.front();
  for (int column = 0; column < columns; ++column) {
    const double begin = timeline.end * column / columns, end = timeline.end * (column + 1) / columns;
    for (; next < timeline.samples.size() && timeline.samples[next].at <= begin; ++next) alive = timeline.samples[next];
    Sample fullest = alive;
    // What holds at the very end of a cycle, when all is over, has no column.
    for (; next < timeline.samples.size() && timeline.samples[next].at < end; ++next) {
      alive = timeline.samples[next];
      const std::size_t host = std::max(fullest.host, alive.host), disk = std::max(fullest.disk, alive.disk);
      if (alive.device_bytes() > fullest.device_bytes()) fullest = alive;
      fullest.host = host;
      fullest.disk = disk;
    }
    fullest.at = begin;
    result.push_back(std::move(fullest));
  }
  return result;
}

}  // namespace sectionflow
