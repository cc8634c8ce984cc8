#include "runtime/trace.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace sectionflow {
namespace {

using nlohmann::json;

constexpr int kComputeLane = 1, kPassLane = 2;

json lane_name(int lane, const char* name) {
  return {{"ph", "M"}, {"name", "thread_name"}, {"pid", 1}, {"tid", lane}, {"args", {{"name", name}}}};
}

json slice(int lane, const std::string& name, const std::string& category, double start_us, double duration_us) {
  return {{"ph", "X"},   {"name", name},   {"cat", category},   {"pid", 1},
          {"tid", lane}, {"ts", start_us}, {"dur", duration_us}};
}

}  // namespace

void Trace::write(const std::string& path, const Graph& graph) const {
  json events = json::array();
  events.push_back({{"ph", "M"}, {"name", "process_name"}, {"pid", 1}, {"args", {{"name", "device"}}}});
  events.push_back(lane_name(kComputeLane, "compute"));
  events.push_back(lane_name(kPassLane, "passes"));
  for (std::size_t i = 0; i < events_.size(); ++i) {
    const Event& event = events_[i];
    const Node& node = graph.node(event.node);
    json step = slice(kComputeLane, node.name(), node.op().name, event.start_us, event.duration_us);
    step["args"] = {
        {"op", node.op().name}, {"pass", event.pass.text()}, {"replay", event.replay}, {"cycle", event.cycle}};
    events.push_back(std::move(step));
    events.push_back({{"ph", "C"},
                      {"name", "bytes_in_use"},
                      {"pid", 1},
                      {"ts", event.start_us},
                      {"args", {{"bytes", event.live_bytes}}}});
  }
  // Passes: runs of events that share pass and cycle.
  for (std::size_t begin = 0; begin < events_.size();) {
    std::size_t end = begin;
    while (end < events_.size() && events_[end].cycle == events_[begin].cycle &&
           events_[end].pass.text() == events_[begin].pass.text()) {
      ++end;
    }
    const Event& last = events_[end - 1];
    events.push_back(slice(kPassLane, events_[begin].pass.text(), "pass", events_[begin].start_us,
                           last.start_us + last.duration_us - events_[begin].start_us));
    begin = end;
  }
  std::ofstream file(path);
  file << json{{"traceEvents", events}, {"displayTimeUnit", "ms"}}.dump() << '\n';
  file.close();
  SF_CHECK(!file.fail(), DataError, "trace '", path, "' cannot be written: ", std::strerror(errno));
}

}  // namespace sectionflow
