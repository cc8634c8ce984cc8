#include "runtime/trace.h"

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/whole_file.h"
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

json step_slice(const Trace::Event& event, const Graph& graph) {
  const Node& node = graph.node(event.node);
  const bool transfer = is_transfer(event.kind);
  json step = slice(lane_number(event.lane), node.name(), transfer ? "swap" : node.op().name, event.start_us,
                    event.duration_us);
  step["args"] = {
      {"op", node.op().name}, {"pass", event.pass.text()}, {"replay", event.replay}, {"cycle", event.cycle}};
  if (transfer) {
    step["args"]["bytes"] = event.bytes;
    step["args"]["offload"] = event.offload;
  }
  return step;
}

/// An arrow from the end of a copy out to the start of the copy in of the same offload.
void add_flows(const std::vector<Trace::Event>& events, json& out) {
  std::map<std::pair<std::uint64_t, int>, const Trace::Event*> left;  // by cycle and offload
  for (const Trace::Event& event : events) {
    if (event.kind == StepKind::copy_out) left[{event.cycle, event.offload}] = &event;
  }
  int id = 0;
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
void add_passes(const std::vector<Trace::Event>& events, json& out) {
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
void add_counters(const std::vector<Trace::Event>& events, std::size_t budget, json& out) {
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

double end_of(const Trace::Event& event) {
  return event.start_us + event.duration_us;
}

/// Adds one cycle, whose steps come in the order of their starts.
void add_cycle(const std::vector<const Trace::Event*>& steps, double smallest_stall_us, SwapTimes& times) {
  double copied = 0, stalled = 0, computed = 0, last_end = 0;
  const double none = -std::numeric_limits<double>::infinity();
  double compute_end = none;
  for (const Trace::Event* step : steps) {
    const bool transfer = is_transfer(step->kind);
    if (transfer) copied += step->duration_us;
    last_end = std::max(last_end, end_of(*step));
    if (step->lane != Lane::compute) continue;
    (transfer ? stalled : computed) += step->duration_us;
    const double gap = step->start_us - compute_end;
    if (compute_end != none && gap > smallest_stall_us) stalled += gap;
    compute_end = end_of(*step);
  }
  if (compute_end != none && last_end - compute_end > smallest_stall_us) stalled += last_end - compute_end;
  constexpr double kSecondsInUs = 1e-6;
  times.copy_seconds += copied * kSecondsInUs;
  times.compute_seconds += computed * kSecondsInUs;
  times.cycle_seconds += (last_end - steps.front()->start_us) * kSecondsInUs;
  if (copied > 0) times.stall_seconds += stalled * kSecondsInUs;
}

}  // namespace

std::span<const Trace::Event> Trace::last_execution() const {
  std::set<int> seen;
  std::size_t begin = events_.size();
  while (begin > 0 && events_[begin - 1].program == events_.back().program &&
         seen.insert(events_[begin - 1].step).second) {
    --begin;
  }
  return std::span(events_).subspan(begin);
}

void Trace::write(const std::string& path, const Graph& graph, Where where) const {
  json events = json::array();
  events.push_back({{"ph", "M"}, {"name", "process_name"}, {"pid", 1}, {"args", {{"name", machine_.device}}}});
  std::set<Lane> used = {Lane::compute};
  for (const Event& event : events_) used.insert(event.lane);
  for (Lane lane : used) events.push_back(name_of_lane(lane_number(lane), lane_name(lane)));
  events.push_back(name_of_lane(kPassLane, "passes"));
  for (const Event& event : events_) events.push_back(step_slice(event, graph));
  add_counters(events_, machine_.device_memory, events);
  add_flows(events_, events);
  add_passes(events_, events);
  // Names may hold any bytes; JSON takes UTF-8 alone.
  const std::string text =
      json{{"traceEvents", events}, {"displayTimeUnit", "ms"}}.dump(-1, ' ', false, json::error_handler_t::replace) +
      '\n';
  call_at(where, [&] { write_whole_file(path, text, "trace"); });
}

SwapTimes swap_times(const std::vector<Trace::Event>& events, double smallest_stall_us) {
  std::map<std::uint64_t, std::vector<const Trace::Event*>> cycles;
  for (const Trace::Event& event : events) cycles[event.cycle].push_back(&event);
  SwapTimes times;
  for (auto& [cycle, steps] : cycles) {
    std::stable_sort(steps.begin(), steps.end(),
                     [](const Trace::Event* a, const Trace::Event* b) { return a->start_us < b->start_us; });
    add_cycle(steps, smallest_stall_us, times);
  }
  if (times.copy_seconds > 0) {
    times.hidden_share = std::clamp(1 - times.stall_seconds / times.copy_seconds, 0.0, 1.0);
  }
  return times;
}

}  // namespace sectionflow
