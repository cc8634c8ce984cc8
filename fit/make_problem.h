#pragma once

#include "fit/list_problem.h"
#include "swap/step_times.h"

namespace sectionflow {

/// The list with everything once: without repeated feeds and executions. What reads a value that was repeated reads the
/// first one.
InstructionList without_repeats(const InstructionList& list);

/// The list without what is offloaded, and without holds of it, of which some say no more than when a copy is expected
/// to be over.
InstructionList without_offloads(const InstructionList& list);

/// The problem of a list, by the times of a profile. `draft` is of that list, of these tools.
ListProblem make_list_problem(const InstructionList& list, const Draft& draft, PlanningTools& tools, StepTimes& times,
                              InPlaceRuns runs = InPlaceRuns::joined, const MayRepeat& may_repeat = {});

/// What the list is to the planner, with everything once: see ListProblem. Throws: InternalError for a list that begins
/// with values that were there before.
planning::Problem problem_of(const InstructionList& list, PlanningTools& tools, const Profile& profile,
                             InPlaceRuns runs = InPlaceRuns::joined);

}  // namespace sectionflow
