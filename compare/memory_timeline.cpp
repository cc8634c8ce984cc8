#include "compare/memory_timeline.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>

#include "base/error.h"
#include "runtime/engine.h"

namespace sectionflow {
namespace {

using Sample = MemoryTimeline::Sample;
using Bar = MemoryTimeline::Bar;

struct Span {
  double start = 0, end = 0;
};

/// Steps one after the other, each as long as any.
std::vector<Span> planned_spans(const Schedule& schedule) {
  std::vector<Span> spans;
  for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
    spans.push_back({static_cast<double>(i), static_cast<double>(i + 1)});
  }
  return spans;
}

/// A trace does not say which steps its events are, but each lane executes its steps in the order of the list.
std::vector<Span> traced_spans(const Schedule& schedule, const Trace& trace) {
  std::array<std::vector<const Trace::Event*>, kNumLanes> events;
  double start = 0;
  for (const Trace::Event& event : trace.events()) {
    start = &event == &trace.events().front() ? event.start_us : std::min(start, event.start_us);
    events[static_cast<std::size_t>(event.lane)].push_back(&event);
  }
  for (auto& lane : events) {
    std::stable_sort(lane.begin(), lane.end(), [](const auto* a, const auto* b) { return a->start_us < b->start_us; });
  }
  std::array<std::size_t, kNumLanes> next{};
  std::vector<Span> spans;
  for (const Step& step : schedule.steps) {
    const auto lane = static_cast<std::size_t>(step.lane);
    SF_CHECK(next[lane] < events[lane].size() && events[lane][next[lane]]->kind == step.kind, InternalError,
             "timeline_of: the trace is not of one cycle of this program");
    const Trace::Event& event = *events[lane][next[lane]++];
    const double at = (event.start_us - start) / 1e3;
    spans.push_back({at, at + event.duration_us / 1e3});
  }
  SF_CHECK(spans.size() == trace.events().size(), InternalError,
           "timeline_of: the trace is longer than one cycle of this program");
  return spans;
}

/// From the first to the last step that touches each storage.
std::vector<Span> stays(const Program& program, const std::vector<Span>& steps) {
  std::vector<Span> stays;
  for (const Storage& storage : program.storage.storages) {
    if (steps.empty()) continue;
    stays.push_back({steps[static_cast<std::size_t>(storage.life.first)].start,
                     steps[static_cast<std::size_t>(storage.life.last)].end});
  }
  const auto touch = [&](const Operand& operand, const Span& step) {
    if (operand.kind != Operand::Kind::buffer) return;
    const int storage = program.storage.storage_of_buffer[static_cast<std::size_t>(operand.index)];
    Span& stay = stays[static_cast<std::size_t>(storage)];
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

/// The pass of a step; where training goes by the whole graph, the section of what is computed.
Pass pass_of(const Program& program, const Graph& graph, const Step& step) {
  Pass pass = program.schedule.passes[static_cast<std::size_t>(step.pass)];
  if (pass.section == kNoGroup) pass.section = graph.node(step.node).group();
  return pass;
}

/// The section of the value in a buffer; scratch belongs to the pass that uses it.
GroupId section_of(const Program& program, const Graph& graph, const Buffer& buffer) {
  if (buffer.value.valid()) return graph.node(buffer.value.node().id()).group();
  return pass_of(program, graph, program.schedule.steps[static_cast<std::size_t>(buffer.life.first)]).section;
}

std::string section_name(const Graph& graph, GroupId section) {
  if (section == kNoGroup) return "outside of sections";
  const std::string& name = graph.group_name(section);
  return name.empty() ? text_of("section ", section) : name;
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

std::vector<Change> changes_of(const std::vector<Span>& stays) {
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

void add_samples(const Program& program, const std::vector<Span>& steps, const std::vector<int>& layer_of,
                 MemoryTimeline& timeline) {
  Sample now{.device = std::vector<std::size_t>(timeline.layers.size(), 0)};
  now.device[0] = program.report.persistent_bytes;
  timeline.samples.push_back(now);
  for (const Change& change : changes_of(stays(program, steps))) {
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

Bar copy_bar(const Program& program, const Graph& graph, const Step& step, const Span& span) {
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

/// Stretches of one pass in the compute lane without a long pause, and all copies.
void add_bars(const Program& program, const Graph& graph, const std::vector<Span>& steps, MemoryTimeline& timeline) {
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
  const std::vector<Span> steps =
      timeline.timed ? traced_spans(program.schedule, *trace) : planned_spans(program.schedule);
  for (const Span& step : steps) timeline.end = std::max(timeline.end, step.end);
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
