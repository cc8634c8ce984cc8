#include "runtime/trace.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/whole_file.h"
#include "runtime/trace_lines.h"

namespace sectionflow {
namespace {

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
  std::string text = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";
  const char* separator = "";
  std::int64_t next_flow = 0;
  for (const auto& lines : {trace_head_lines(*this), trace_event_lines(*this, graph, next_flow)}) {
    for (const std::string& line : lines) {
      text += separator;
      text += line;
      separator = ",";
    }
  }
  text += "]}\n";
  call_at(where, [&] {
    make_folder(std::filesystem::path(path).parent_path(), "trace");
    write_whole_file(path, text, "trace");
  });
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
