#include "fit/fit_budget.h"

#include <memory>
#include <string>

#include "base/whole_file.h"
#include "data/tensor_hashes.h"
#include "fit/program_fitter.h"
#include "runtime/engine.h"

namespace sectionflow {

void fit_budget(Session& session, const FitBudgetOptions& options, Where where) {
  call_at(where, [&] {
    if (options.profile) check_profile(*options.profile, "fit_budget");
    auto made = std::make_shared<ProgramFitter>(engine(session), options);
    const Profile profile = options.profile.value_or(Profile::nominal());
    const std::string key = text_of("fit_budget ", options.may_recompute, options.may_swap, options.may_split, " ",
                                    options.effort, " ", digest_of(profile), " ", text_hash(options.plan.text()));
    // The programs that an earlier call's has planned stay, and so does what it knows of them.
    const auto before = std::dynamic_pointer_cast<ProgramFitter>(engine(session).earlier_planner(key));
    if (before != nullptr) before->renew(options);
    engine(session).set_planner(key, before != nullptr ? before : std::move(made));
  });
}

FitPlan plan_of(const Session& session, Where where) {
  return call_at(where, [&] {
    const auto* const fitter = dynamic_cast<const ProgramFitter*>(engine(session).planner());
    SF_CHECK(fitter != nullptr, ArgumentError, "plan_of: fit_budget does not plan for this session",
             hint("call fit_budget(session) first"));
    return fitter->plan();
  });
}

void save_plan(const Session& session, const std::string& path, Where where) {
  call_at(where, [&] {
    const FitPlan plan = plan_of(session, where);
    const auto& fitter = dynamic_cast<const ProgramFitter&>(*engine(session).planner());
    SF_CHECK(plan.num_programs() > 0 || !fitter.has_refused(), ArgumentError,
             "save_plan: what has been planned for this session does not fit its budgets",
             hint("the refusal of the step tells what would do: give that much, and plan again"));
    SF_CHECK(plan.num_programs() > 0, ArgumentError, "save_plan: nothing has been planned for this session yet",
             hint("run a step first, or plan one (Session::plan, GraphSectionManager::plan)"));
    write_whole_file(path, plan.text(), "save_plan");
  });
}

}  // namespace sectionflow
