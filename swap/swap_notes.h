#pragma once

#include <string>
#include <vector>

#include "swap/swap_problem.h"

namespace sectionflow {

/// What travels and why, for people: a summary, then a line for each of the largest rests. Empty where nothing rests.
std::vector<std::string> swap_notes(const SwapProblem& problem, const std::vector<Decision>& decisions,
                                    const Prediction& prediction);

}  // namespace sectionflow
