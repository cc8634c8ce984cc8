#pragma once

#include <cstddef>
#include <string>

#include "base/error.h"
#include "fit/fit_list.h"
#include "fit/plan_content.h"
#include "fit/written_list.h"
#include "schedule/planning_tools.h"
#include "swap/profile.h"

// Whether a plan that somebody else has made, or that was made for other budgets, is to be executed here.
namespace sectionflow {

/// Of what went wrong, for the log.
std::string log_text(const Error& error);

/// " has none for training of float32 [8,3]", with what comes closest.
std::string has_none_text(const PlanContent& content, const ProgramFacts& wanted);

/// Why a plan that was made for some budgets is not to be taken for others, as far as these tell; empty: it may be.
std::string other_budgets(const ProgramPlan& plan, const TierBudgets& then, const TierBudgets& now);

/// Whether it does more than the program as it was written.
bool offloads(const ProgramPlan& plan);
bool runs_in_parts(const ProgramPlan& plan);
bool computes_again(const ProgramPlan& plan, const InstructionList& written);
/// Of the instructions those that are executed once more.
std::ptrdiff_t num_replays(const ProgramPlan& plan);
std::ptrdiff_t num_replays(const InstructionList& list);

/// Why it is not what the options ask for, where so many are in the list that was written; empty: it is.
std::string forbidden(const ProgramPlan& plan, std::ptrdiff_t written_replays, const FitRequest& request);

/// Of a list by anybody for the program that was written, within the budgets or not; the tools are told what it is
/// predicted to take: in parts no less than as a whole, as PartsFitter counts it. Throws: InternalError for a list
/// whose values are not where they are read.
Draft checked_draft(const InstructionList& list, const WrittenList& written, PlanningTools& tools,
                    const Profile& profile);

}  // namespace sectionflow
