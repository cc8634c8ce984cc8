#pragma once

#include <vector>

#include "schedule/planning_tools.h"
#include "swap/step_times.h"

namespace sectionflow {

/// When a step is expected to run, in seconds from the start of the cycle.
struct StepTime {
  double start = 0;
  double end = 0;
  friend bool operator==(const StepTime&, const StepTime&) = default;
};

/// How long a schedule is expected to take.
struct Prediction {
  double seconds = 0;          ///< until the last lane is done
  double compute_seconds = 0;  ///< of kernels, feeds and fetches
  double copy_seconds = 0;     ///< of all steps that transfer bytes between tiers, whoever carries them
  /// What swapping costs: `seconds` less `compute_seconds`, with what copies delay kernels beside them.
  double stall_seconds = 0;
  std::vector<StepTime> steps;  ///< one a step

  /// The share of the copies' time that computing hides; 1 where nothing is copied.
  double hidden_share() const;
};

/// Simulates a schedule whose waits are set: each lane executes its steps in the order of the list, each step when the
/// lane is free and what it waits for is over. One a step: its `seconds`, and `drags`, by which it delays the
/// executions beside it; empty: by none.
Prediction simulate(const Schedule& schedule, const std::vector<double>& seconds,
                    const std::vector<double>& drags = {});

/// Sets the waits of the draft and simulates it by these times.
Prediction predict(Draft& draft, StepTimes& times);

}  // namespace sectionflow
