#pragma once

#include <limits>
#include <vector>

#include "swap/swap_problem.h"

namespace sectionflow {

/// How long decisions would take if bytes could lie anywhere: what comes to the device waits until so much has left it
/// that all fits, but never for a certain place. Quickly worked out, without a plan of memory, and hardly ever slower
/// than the schedule that is made of them.
struct RelaxedSimulation {
  std::vector<StepTime> steps;  ///< the problem's own
  double seconds = 0;
};
/// `device_bytes`: the capacity of the device. Where the decisions need more than that, all that has left is waited
/// for.
RelaxedSimulation simulate_relaxed(const SwapProblem& problem, const std::vector<Decision>& decisions,
                                   std::size_t device_bytes = std::numeric_limits<std::size_t>::max());

/// No choice of offloads that keeps to `device_bytes` is faster. Never falls with fewer bytes.
double least_seconds(const SwapProblem& problem, std::size_t device_bytes);

}  // namespace sectionflow
