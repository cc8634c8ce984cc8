#pragma once

#include <vector>

#include "schedule/schedule.h"
#include "swap/profile.h"
#include "swap/step_times.h"

namespace sectionflow {

/// A schedule that a machine has executed. All must outlive it.
struct ExecutedSchedule {
  const Schedule& schedule;
  const ConcreteGraph& graph;
  const StepTimes::Kernels& kernels;
  CopyCarrier carrier = CopyCarrier::team;
  double link_bandwidth = 0;  ///< as StepTimes
};

/// The share of what `profile` predicts for the kernels of the schedule that it has measured, the kernels of their
/// first executions counting for replays, and those of whole operations for parts; from 0 to 1, and 1 without kernels.
double measured_share(const ExecutedSchedule& executed, const Profile& profile);

/// The profile of the machine that has executed each step in `seconds`, one a step: its kernels as long as they took,
/// in the median where several steps execute one, the link and the disk as fast as its copies went, throttle aside.
/// Other speeds and kernels, which the schedule does not show, have changed since `before` by the factor by which its
/// kernels have.
Profile corrected_profile(const ExecutedSchedule& executed, const std::vector<double>& seconds, const Profile& before);

}  // namespace sectionflow
