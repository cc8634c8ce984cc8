#pragma once

#include "fit/list_problem.h"
#include "swap/step_times.h"

namespace sectionflow {

/// The list with everything once: without repeated feeds and executions. What reads a value that was repeated reads the
/// first one.
InstructionList without_repeats(const InstructionList& list);

/// The problem of a list in which everything stands once, by the times of a profile. `draft` is of that list, of these
/// tools.
ListProblem make_list_problem(const InstructionList& list, const Draft& draft, PlanningTools& tools, StepTimes& times,
                              InPlaceRuns runs = InPlaceRuns::joined);

/// What the list is to the planner: see ListProblem. Throws: InternalError for a list that offloads, or begins with
/// values that were there before.
planning::Problem problem_of(const InstructionList& list, PlanningTools& tools, const Profile& profile,
                             InPlaceRuns runs = InPlaceRuns::joined);

}  // namespace sectionflow
