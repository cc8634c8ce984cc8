#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/export.h"
#include "graph/graph.h"
#include "runtime/schedule.h"

namespace SF_API sectionflow {

/// What ran when, for chrome://tracing and Perfetto. Room for a cycle's events is taken before the cycle starts.
class Trace {
 public:
  /// One executed step.
  struct Event {
    NodeId node = 0;
    Pass pass;
    bool replay = false;
    std::uint64_t cycle = 0;
    double start_us = 0;
    double duration_us = 0;
    std::size_t live_bytes = 0;  ///< bytes of the buffers alive during the step
  };

  void reserve(std::size_t more_events) {
    const std::size_t wanted = events_.size() + more_events;
    // At least twice the room, so that many cycles in one trace are not copied at each.
    if (wanted > events_.capacity()) events_.reserve(std::max(wanted, 2 * events_.capacity()));
  }
  void add(const Event& event) { events_.push_back(event); }
  const std::vector<Event>& events() const { return events_; }
  void clear() { events_.clear(); }

  /// Chrome trace event JSON: one lane of steps, one of passes, and a counter of live bytes.
  /// Throws: DataError when the file cannot be written.
  void write(const std::string& path, const Graph& graph) const;

 private:
  std::vector<Event> events_;
};

}  // namespace sectionflow
