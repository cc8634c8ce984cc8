#pragma once

#include <vector>

#include "planning/cuts.h"
#include "schedule/planning_tools.h"
#include "swap/step_times.h"

namespace sectionflow {

/// What a cycle of a single section is to somebody who is going to cut it. `place_of`: by node, the place of an
/// operation, and of the operation that a gradient differentiates; below 0 for what has none. `draft` is of that cycle.
planning::CutProblem make_cut_problem(const Draft& draft, const ConcreteGraph& graph, const std::vector<int>& place_of,
                                      int num_places, StepTimes& times);

}  // namespace sectionflow
