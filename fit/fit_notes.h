#pragma once

#include <span>
#include <string>
#include <vector>

#include "planning/evaluate.h"
#include "planning/frontier.h"
#include "planning/problem.h"

namespace sectionflow {

/// What is computed again and why, for people: a summary, what a little more and a little less memory would do, then a
/// line for each of the largest values. `order`: the executions of a plan of the rung. `name`: of who plans. What more
/// and less would do is told of a rung beside which has been searched (Frontier::search_beside); `rung` -1: of none.
std::vector<std::string> fit_notes(const planning::Problem& problem, const planning::Frontier& frontier, int rung,
                                   std::span<const int> order, const std::string& name);

/// The same of a plan that offloads too: a summary, and a line for each of the largest values that are computed again,
/// and of those that are offloaded.
std::vector<std::string> joint_notes(const planning::Problem& problem, const planning::Plan& plan,
                                     const planning::Evaluation& evaluation, const std::string& name);

}  // namespace sectionflow
