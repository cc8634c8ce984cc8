#include "fit/program_fitter.h"

#include <glog/logging.h>

#include <memory>
#include <utility>

#include "base/bytes.h"
#include "data/tensor_hashes.h"
#include "fit/plan_budgets.h"
#include "fit/usable_plan.h"

namespace sectionflow {
namespace {

Fact plan_anew() {
  return hint("leave FitBudgetOptions::plan out, plan, and save that plan (save_plan)");
}

}  // namespace

ProgramFitter::ProgramFitter(Engine& engine, const FitBudgetOptions& options)
    : engine_(engine),
      request_(request_of(options, "fit_budget")),
      profile_(options.profile.value_or(Profile::nominal())),
      has_own_profile_(options.profile.has_value()),
      given_(options.plan),
      replan_(options.replan) {
  if (!given_.empty()) planned_ = *given_.content();
  request_.profile = &profile_;
  request_.frontiers = &frontiers_;
}

std::optional<Profile> ProgramFitter::profile() const {
  return profile_ == Profile::nominal() ? std::nullopt : std::optional(profile_);
}

void ProgramFitter::renew(const FitBudgetOptions& options) {
  request_ = request_of(options, "fit_budget");
  request_.profile = &profile_;
  request_.frontiers = &frontiers_;
  // What it had was of a checkpoint, or nominal.
  if (options.profile && !has_own_profile_) set_profile(*options.profile);
  has_own_profile_ = has_own_profile_ || options.profile.has_value();
  replan_ = options.replan;
}

FitPlan ProgramFitter::plan() const {
  PlanContent content = planned_;
  content.device = plain_text(engine_.device().name());
  content.budgets = engine_.budgets();
  content.profile = profile_ == Profile::nominal() ? "nominal" : text_hash(profile_.json());
  content.model = ModelFacts::of(engine_.graph());
  // Of another model nothing that was given is for this one, and nothing has been planned.
  if (!given_.empty() && given_.content()->model != content.model) content.programs.clear();
  std::erase_if(content.programs, [&](const ProgramPlan& each) { return refused_.contains(each.facts.fingerprint); });
  if (restored_) {
    for (const ProgramPlan& plan : restored_->content.programs) {
      const bool is_known =
          content.find(plan.facts.fingerprint) != nullptr || refused_.contains(plan.facts.fingerprint);
      if (!is_known && other_budgets(plan, restored_->content.budgets, content.budgets).empty()) content.put(plan);
    }
  }
  return FitPlan(std::make_shared<const PlanContent>(std::move(content)));
}

InstructionList ProgramFitter::planned(const InstructionList& list, PlanningTools& tools) {
  const WrittenList written(list, tools.graph());
  const ProgramFacts facts = written.facts();
  const auto again = again_.find(facts.fingerprint);
  const ProgramPlan* const given = again != again_.end() ? nullptr : given_plan(facts, tools);
  if (given != nullptr) {
    InstructionList by_plan = by_given(*given, written, tools);
    served_.push_back(given->facts);
    return by_plan;
  }
  if (again != again_.end()) tools.notes.push_back(again->second);
  return planned_here(written, facts, tools);
}

InstructionList ProgramFitter::planned_here(const WrittenList& written, const ProgramFacts& facts,
                                            PlanningTools& tools) {
  std::string why_not;
  FitRequest request = request_;
  request.policies = tools.policies;
  request.told_first = tools.told_first;
  // A short search that finds nothing is followed by a long one, which is not to hang on what others take.
  if (request.effort == 0) request.only_below = tools.only_below;
  // By its fingerprint alone nobody can tell that a plan keeps to policies.
  const bool has_policies = request.policies.may_repeat || request.policies.offloads;
  if (has_policies && is_for_here(tools)) with_policies_.insert(facts.fingerprint);
  if (!has_policies) {
    if (is_for_here(tools)) with_policies_.erase(facts.fingerprint);
    if (auto earlier = by_earlier(written, facts, tools, why_not)) return *std::move(earlier);
  }
  const std::string origin = is_for_here(tools) ? tell_search(written.list(), facts, why_not, tools) : std::string();
  FittedList fitted = fit_list(written.list(), tools, request);
  keep(fitted, written, facts, request, origin, tools);
  return std::move(fitted.list);
}

/// The note of it. Where it fits as it is there is nothing to search for, and nothing to tell.
std::string ProgramFitter::tell_search(const InstructionList& list, const ProgramFacts& facts,
                                       const std::string& why_not, PlanningTools& tools) const {
  if ((given_.empty() && why_not.empty()) || tools.draft(list).fits) return {};
  std::string note;
  if (!why_not.empty()) {
    note = text_of("fit_budget: ", why_not, ": it is searched for");
    LOG(INFO) << note;
    tools.notes.push_back(note);
  }
  if (given_.empty()) return note;
  const std::string text =
      text_of("fit_budget: the plan that was given", has_none_text(*given_.content(), facts), ": it is searched for");
  // A small last batch is no news where the plan has been of use.
  LOG_IF(INFO, !served_.empty()) << text;
  LOG_IF(WARNING, served_.empty()) << text;
  return note;
}

/// nullptr where it has none.
const ProgramPlan* ProgramFitter::given_plan(const ProgramFacts& wanted, const PlanningTools& tools) const {
  if (given_.empty()) return nullptr;
  const PlanContent& given = *given_.content();
  const ModelFacts model = ModelFacts::of(tools.graph().graph());
  SF_CHECK_CODE(model == given.model, DataError, ErrorCode::plan_file, "fit_budget: the plan is of a model with ",
                given.model.text(), "; this one has ", model.text(),
                model.text() == given.model.text() ? " of other types" : "", plan_anew());
  return given.find(wanted.fingerprint);
}

/// Checked as if anybody had written it, then placed and held against the budgets as any other.
InstructionList ProgramFitter::by_given(const ProgramPlan& plan, const WrittenList& written, PlanningTools& tools) {
  // What other budgets would do is asked to be compared with: it is no news of the plan.
  const bool is_here = is_for_here(tools);
  if (is_here) refused_.insert(plan.facts.fingerprint);
  const std::string where = "fit_budget: the plan that was given: ";
  InstructionList list = written.list_of(plan, where);
  try {
    const Draft draft = checked_draft(list, written, tools, profile_);
    if (is_here) tell_given(plan, written, draft, tools);
    if (is_here && draft.fits) refused_.erase(plan.facts.fingerprint);
  } catch (const InternalError& error) {
    throw DataError(error_text_of(where, plan.facts.name(), " cannot be executed: ", error.message(), plan_anew()),
                    ErrorCode::plan_file);
  }
  return list;
}

void ProgramFitter::tell_given(const ProgramPlan& plan, const WrittenList& written, const Draft& draft,
                               PlanningTools& tools) {
  const PlanContent& given = *given_.content();
  tools.notes.push_back(text_of("fit_budget: by a plan that was given, of ", given.device, " with ",
                                bytes_text(given.budgets.device), " of device memory"));
  const bool costs_time = offloads(plan) || runs_in_parts(plan) || computes_again(plan, written.list());
  const std::string more = costs_time ? other_budgets(plan, given.budgets, tools.budgets()) : std::string();
  if (draft.fits && !more.empty()) {
    const bool fits_whole = tools.draft(written.list()).fits;
    const std::string text = text_of("fit_budget: the plan that was given", more, ": ",
                                     fits_whole ? "the program fits them without a plan, and is quicker without one"
                                                : "a search may find a quicker one");
    tools.notes.push_back(text);
    LOG_IF(WARNING, !std::exchange(has_told_of_more_, true)) << text;
  }
  if (draft.device_peak_bytes != plan.device_peak) {
    tools.notes.push_back(
        text_of("fit_budget: where it was saved it took ", bytes_text(plan.device_peak), " of device memory"));
  }
  tools.notes.insert(tools.notes.end(), plan.notes.begin(), plan.notes.end());
  if (draft.fits) return;
  tools.first_advice = text_of("plan anew, without the plan that was given, which is for ",
                               bytes_text(given.budgets.device), " (FitBudgetOptions::plan)");
  tools.minimum_is_exact = false;
  tools.minimum_is_enough = true;
}

}  // namespace sectionflow
