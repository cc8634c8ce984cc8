#pragma once

#include <span>
#include <string>
#include <vector>

#include "planning/frontier.h"

namespace sectionflow {

/// What is computed again and why, for people: a summary, what a little more and a little less memory would do, then a
/// line for each of the largest values. `order`: the executions of a plan of the rung. `name`: of who plans.
/// Rungs beside it are looked at where they have been searched for.
std::vector<std::string> fit_notes(const planning::Problem& problem, const planning::Frontier& frontier, int rung,
                                   std::span<const int> order, const std::string& name);

}  // namespace sectionflow
