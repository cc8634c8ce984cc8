#pragma once

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/export.h"
#include "graph/graph.h"
#include "schedule/step_kind.h"

namespace SF_API sectionflow {

/// What ran when, for chrome://tracing and Perfetto. Memory for a cycle's events is taken before the cycle starts.
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
    std::size_t live_bytes = 0;  ///< bytes of the buffers in device memory that the plan has alive at the step
    StepKind kind = StepKind::compute;
    Lane lane = Lane::compute;
    int offload = -1;                 ///< copies: the number of the offload
    std::size_t bytes = 0;            ///< copies: how many
    int step = 0;                     ///< its number in the program
    std::uint64_t program = 0;        ///< of the session
    std::size_t variable_bytes = 0;   ///< in device memory, beside live_bytes
    std::size_t host_bytes = 0;       ///< as live_bytes, of host memory
    std::size_t disk_bytes = 0;       ///< as live_bytes, on disk
    std::size_t output_bytes = 0;     ///< computing: what it writes
    std::size_t workspace_bytes = 0;  ///< computing: its scratch
    int part = 0, parts = 1;          ///< computing: which of so many parts of its node
  };
  /// Where the steps ran, or are going to.
  struct Machine {
    std::string device = "device";  ///< "cpu (2 threads)"
    std::size_t device_memory = 0;  ///< the budget; 0: none was set
  };

  Trace() = default;
  /// One that was not measured: planned_trace makes it.
  Trace(Machine machine, std::vector<Event> events) : machine_(std::move(machine)), events_(std::move(events)) {}

  void reserve(std::size_t more_events) {
    const std::size_t wanted = events_.size() + more_events;
    // At least twice the capacity, so that many cycles in one trace are not copied at each.
    if (wanted > events_.capacity()) events_.reserve(std::max(wanted, 2 * events_.capacity()));
  }
  /// Threads: by any lane at any time.
  void add(const Event& event) {
    const std::lock_guard lock(mutex_);
    events_.push_back(event);
  }
  /// In the order of their ends. Not while a lane runs.
  const std::vector<Event>& events() const { return events_; }
  /// Those of the execution that ended last, or of as much of it as is there.
  std::span<const Event> last_execution() const;
  void clear() { events_.clear(); }
  /// The session's, once it has traced anything.
  const Machine& machine() const { return machine_; }
  void set_machine(Machine machine) { machine_ = std::move(machine); }

  /// Chrome trace event JSON, for chrome://tracing and Perfetto. The process is the device; it has one lane of steps
  /// for compute, copy out, copy in, disk out, disk in and communicate each as far as they are used, one of passes;
  /// flows from swap-out to swap-in; and counters: bytes in use on the device, the budget, and bytes offloaded. One
  /// file, its folder made where it is not there: TraceFiles cuts long runs. Throws: DataError when it cannot be
  /// written; what was there stays.
  void write(const std::string& path, const Graph& graph, Where where = Where::here()) const;

 private:
  std::mutex mutex_;
  Machine machine_;
  std::vector<Event> events_;
};

/// What copies between tiers took of the time of the cycles in a trace.
struct SwapTimes {
  double copy_seconds = 0;     ///< all copies between tiers, those to and from the disk included, added up
  double stall_seconds = 0;    ///< in which the compute lane did not compute because of them
  double hidden_share = 0;     ///< of the copies' time that cost none: 1 - stall / copy, from 0 to 1; 0 without copies
  double compute_seconds = 0;  ///< in which the compute lane did its own work
  double cycle_seconds = 0;    ///< from the first step of a cycle to the end of its last, all cycles added up
};

/// Between two steps the compute lane does little; a longer gap than this is a wait.
inline constexpr double kSmallestStallUs = 50;

/// Stall is: copies that the compute lane carries itself; gaps of more than `smallest_stall_us` between its steps of
/// one cycle; and the time from its last step to the end of the last copy, since a cycle is over when all lanes are. A
/// trace without copies has no stall, whatever interrupts it.
SwapTimes swap_times(const std::vector<Trace::Event>& events, double smallest_stall_us = kSmallestStallUs);

}  // namespace sectionflow
