#include "runtime/trace_lines.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/error.h"
#include "graph/op_def.h"

namespace sectionflow {
namespace {

using nlohmann::json;

constexpr int kPassLane = kNumLanes + 1;

int lane_number(Lane lane) {
  return static_cast<int>(lane) + 1;
}

json name_of_lane(int lane, const char* name) {
  return {{"ph", "M"}, {"name", "thread_name"}, {"pid", 1}, {"tid", lane}, {"args", {{"name", name}}}};
}

json slice(int lane, const std::string& name, const std::string& category, double start_us, double duration_us) {
  return {{"ph", "X"},   {"name", name},   {"cat", category},   {"pid", 1},
          {"tid", lane}, {"ts", start_us}, {"dur", duration_us}};
}

/// What a copy is called by: the compute lane has copies too, beside what makes the tensor.
std::string verb_of(StepKind kind) {
  switch (kind) {
    case StepKind::copy_out:
      return "copy out ";
    case StepKind::disk_write:
      return "disk out ";
    case StepKind::disk_read:
      return "disk in ";
    case StepKind::copy_in:
      return "copy in ";
    default:
      return "";
  }
}

json step_slice(const Trace::Event& event, const Graph& graph) {
  const Node& node = graph.node(event.node);
  const bool transfer = is_transfer(event.kind);
  json step = slice(lane_number(event.lane), verb_of(event.kind) + node.name(), transfer ? "swap" : node.op().name,
                    event.start_us, event.duration_us);
  step["args"] = {
      {"op", node.op().name}, {"pass", event.pass.text()}, {"replay", event.replay}, {"cycle", event.cycle}};
  if (event.parts > 1) step["args"]["part"] = text_of(event.part + 1, " of ", event.parts);
  if (transfer) {
    step["args"]["bytes"] = event.bytes;
    step["args"]["offload"] = event.offload;
  }
  return step;
}

/// An arrow from a copy out to the copy in of the same offload. Viewers tie each end to the slice that is under way.
void add_flows(const std::vector<Trace::Event>& events, std::int64_t& id, std::vector<json>& out) {
  std::map<std::pair<std::uint64_t, int>, const Trace::Event*> left;  // by cycle and offload
  for (const Trace::Event& event : events) {
    if (event.kind == StepKind::copy_out) left[{event.cycle, event.offload}] = &event;
  }
  for (const Trace::Event& event : events) {
    const auto found = left.find({event.cycle, event.offload});
    if (event.kind != StepKind::copy_in || found == left.end()) continue;
    const Trace::Event& from = *found->second;
    const auto flow = [&](const char* phase, const Trace::Event& at, double time_us) {
      json arrow = {{"ph", phase},   {"name", "offload"},          {"cat", "swap"}, {"id", id}, {"pid", 1},
                    {"ts", time_us}, {"tid", lane_number(at.lane)}};
      if (*phase == 'f') arrow["bp"] = "e";
      out.push_back(std::move(arrow));
    };
    flow("s", from, from.start_us);
    flow("f", event, event.start_us);
    ++id;
  }
}

/// Runs of events of the compute lane that share pass and cycle.
void add_passes(const std::vector<Trace::Event>& events, std::vector<json>& out) {
  std::vector<const Trace::Event*> computed;
  for (const Trace::Event& event : events) {
    if (event.lane == Lane::compute) computed.push_back(&event);
  }
  for (std::size_t begin = 0; begin < computed.size();) {
    const Trace::Event& first = *computed[begin];
    std::size_t end = begin;
    while (end < computed.size() && computed[end]->cycle == first.cycle &&
           computed[end]->pass.text() == first.pass.text()) {
      ++end;
    }
    const Trace::Event& last = *computed[end - 1];
    out.push_back(
        slice(kPassLane, first.pass.text(), "pass", first.start_us, last.start_us + last.duration_us - first.start_us));
    begin = end;
  }
}

json counter(const char* name, double time_us, json series) {
  return {{"ph", "C"}, {"name", name}, {"pid", 1}, {"ts", time_us}, {"args", std::move(series)}};
}

/// What lies where at each step of the compute lane; the budget and the tiers below as far as there are any.
void add_counters(const std::vector<Trace::Event>& events, std::size_t budget, std::vector<json>& out) {
  const bool offloads = std::any_of(events.begin(), events.end(), [](const Trace::Event& event) {
    return event.host_bytes > 0 || event.disk_bytes > 0;
  });
  // A line from end to end.
  if (budget > 0 && !events.empty()) {
    for (const Trace::Event* end : {&events.front(), &events.back()}) {
      out.push_back(counter("device_memory", end->start_us, {{"budget", budget}}));
    }
  }
  for (const Trace::Event& event : events) {
    if (event.lane != Lane::compute) continue;
    out.push_back(
        counter("bytes_in_use", event.start_us, {{"variables", event.variable_bytes}, {"tensors", event.live_bytes}}));
    if (!offloads) continue;
    out.push_back(counter("bytes_offloaded", event.start_us, {{"host", event.host_bytes}, {"disk", event.disk_bytes}}));
  }
}

/// Names may hold any bytes; JSON takes UTF-8 alone.
std::vector<std::string> lines_of(const std::vector<json>& events) {
  std::vector<std::string> lines;
  lines.reserve(events.size());
  for (const json& event : events) lines.push_back(event.dump(-1, ' ', false, json::error_handler_t::replace));
  return lines;
}

}  // namespace

std::vector<std::string> trace_head_lines(const Trace& trace) {
  std::vector<json> head = {
      {{"ph", "M"}, {"name", "process_name"}, {"pid", 1}, {"args", {{"name", trace.machine().device}}}}};
  std::set<Lane> used = {Lane::compute};
  for (const Trace::Event& event : trace.events()) used.insert(event.lane);
  for (Lane lane : used) head.push_back(name_of_lane(lane_number(lane), lane_name(lane)));
  head.push_back(name_of_lane(kPassLane, "passes"));
  return lines_of(head);
}

std::vector<std::string> trace_event_lines(const Trace& trace, const Graph& graph, std::int64_t& next_flow) {
  const std::vector<Trace::Event>& events = trace.events();
  std::vector<json> lines;
  lines.reserve(2 * events.size());
  for (const Trace::Event& event : events) lines.push_back(step_slice(event, graph));
  add_counters(events, trace.machine().device_memory, lines);
  add_flows(events, next_flow, lines);
  add_passes(events, lines);
  return lines_of(lines);
}

}  // namespace sectionflow
