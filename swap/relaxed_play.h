#pragma once

#include <vector>

#include "swap/swap_problem.h"

namespace sectionflow {

/// How decisions would play if bytes never had to wait for others to leave: quickly worked out, without a plan of
/// memory, and never slower than the schedule that is made of them.
struct RelaxedPlay {
  std::vector<StepTime> steps;  ///< the problem's own
  double seconds = 0;
};
RelaxedPlay play_relaxed(const SwapProblem& problem, const std::vector<Decision>& decisions);

}  // namespace sectionflow
