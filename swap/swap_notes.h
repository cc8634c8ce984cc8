#pragma once

#include <string>
#include <vector>

#include "swap/swap_problem.h"

namespace sectionflow {

/// "12.3 ms"; of short times "0.123 ms".
std::string milliseconds(double seconds);

/// What is offloaded and why, for people: a summary, then a line for each of the largest offloads. Empty where there
/// is none.
std::vector<std::string> swap_notes(const SwapProblem& problem, const std::vector<Decision>& decisions,
                                    const Prediction& prediction);

}  // namespace sectionflow
