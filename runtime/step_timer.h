#pragma once

#include <array>
#include <chrono>
#include <vector>

#include "runtime/executor.h"

namespace sectionflow {

/// The times of the passes of one execution and, for a trace, of its steps. On a device with queues by marks in the
/// queues, read in the end: a recording has none.
///
/// Threads: a lane's step is begun and ended by one thread; passes by that of the compute lane.
class StepTimer {
 public:
  StepTimer(const Executable& program, ExecutionContext& context);

  /// Whether somebody looks at the times of this execution.
  bool are_wanted() const { return context_.trace != nullptr || context_.log_pass_times; }

  /// On queues: while they are empty.
  void begin();
  void enter_pass(int pass);
  void leave_pass();
  void begin_step(StepIndex index);
  void end_step(StepIndex index);
  /// On queues: when all is done.
  void finish();

 private:
  using Clock = std::chrono::steady_clock;
  struct MarkedPass {
    int pass, begin, end;
  };
  struct Begun {
    double start_us = 0;
    int mark = -1, end_mark = -1;
  };

  Lane lane_of(StepIndex index) const { return program_.schedule.steps[static_cast<std::size_t>(index)].lane; }
  void add_pass(int pass, double seconds);
  void add_event(StepIndex index, double start_us, double end_us);

  const Executable& program_;
  ExecutionContext& context_;
  QueueProgram::Marks* marks_;  // of a device with queues
  int pass_ = -1;
  Clock::time_point pass_start_;
  std::array<double, kNumLanes> start_us_{};
  std::vector<MarkedPass> passes_;
  std::vector<Begun> begun_;
  double origin_us_ = 0;
  int origin_ = 0;
};

}  // namespace sectionflow
