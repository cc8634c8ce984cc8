// The plans that a session goes on by without being given any: what its searches have found, and what the checkpoint
// has; and what is kept of them.

#include <glog/logging.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/bytes.h"
#include "data/tensor_hashes.h"
#include "fit/program_fitter.h"
#include "fit/usable_plan.h"

namespace sectionflow {
namespace {

std::string advice_for_other_tiers(const TierBudgets& budgets) {
  return budgets.disk > 0 ? "give more host_memory or a larger disk, which have no room for what would be offloaded"
                          : "give more host_memory, which has no room for what would be offloaded, or a disk "
                            "(SessionOptions::disk)";
}

}  // namespace

/// What a search found before, or what the checkpoint has.
std::optional<InstructionList> ProgramFitter::by_earlier(const WrittenList& written, const ProgramFacts& facts,
                                                         PlanningTools& tools, std::string& why_not) {
  const std::string& fingerprint = facts.fingerprint;
  const bool is_here = is_for_here(tools);
  const KnownPlans::Found* const found = known_.find(fingerprint, KnownPlans::Place::of(written, tools));
  if (found != nullptr && found->refusal) {
    static_cast<ListRemarks&>(tools) = found->refusal->remarks;
    if (is_here) refused_.insert(fingerprint);
    return written.list_of(found->refusal->closest, "fit_budget: what was refused before: ");
  }
  if (found != nullptr && !found->plan && tools.only_below <= found->nothing_below) return written.list();
  if (found != nullptr && found->plan) {
    ProgramPlan before = *found->plan;
    const auto num_notes = static_cast<std::ptrdiff_t>(tools.notes.size());
    if (auto list = by_known(before, written, tools, "what was planned before", why_not)) {
      if (!found->origin.empty()) tools.notes.insert(tools.notes.begin() + num_notes, found->origin);
      // A search counts some plans as slower than they are alone.
      tools.predicted_seconds = std::max(tools.predicted_seconds, found->seconds);
      if (is_here) keep_to_execute(fingerprint, before);
      return list;
    }
  }
  return is_here ? by_restored(written, facts, tools, why_not) : std::nullopt;
}

ProgramPlan ProgramFitter::described(const FittedList& fitted, const WrittenList& written, ProgramFacts facts) {
  ProgramPlan plan{.facts = std::move(facts),
                   .device_peak = fitted.device_peak,
                   .host_peak = fitted.host_peak,
                   .disk_peak = fitted.disk_peak};
  for (const std::string& note : fitted.notes) plan.notes.push_back(plain_text(note));
  written.describe(fitted.list, plan);
  return plan;
}

/// What a search has found, or that it has found nothing.
void ProgramFitter::keep(const FittedList& fitted, const WrittenList& written, const ProgramFacts& facts,
                         const FitRequest& request, const std::string& origin, PlanningTools& tools) {
  ProgramPlan plan = described(fitted, written, facts);
  const bool fits = fitted.fits(tools.budgets());
  const bool is_here = is_for_here(tools);
  const bool has_policies = request.policies.may_repeat || request.policies.offloads;
  if (std::isfinite(request.only_below) && !(fits && fitted.seconds < request.only_below)) {
    if (!has_policies)
      known_.put(facts.fingerprint, KnownPlans::Place::of(written, tools), {.nothing_below = request.only_below});
    return;
  }
  if (fits) {
    if (is_here) keep_to_execute(facts.fingerprint, plan);
    // Without policies another may be quicker, and nobody can tell of a plan that it keeps to others.
    if (has_policies) return;
    known_.put(facts.fingerprint, KnownPlans::Place::of(written, tools),
               {.plan = std::move(plan), .origin = origin, .seconds = fitted.seconds});
    return;
  }
  if (is_here) keep_to_execute(facts.fingerprint, std::nullopt);
  tools.advice = advice_for_refused(fitted);
  tools.minimum_is_exact = false;
  if (!has_policies)
    known_.put(facts.fingerprint, KnownPlans::Place::of(written, tools), {.refusal = {{std::move(plan), tools}}});
}

/// none: it is refused.
void ProgramFitter::keep_to_execute(const std::string& fingerprint, const std::optional<ProgramPlan>& plan) {
  if (!plan) return void(refused_.insert(fingerprint));
  planned_.put(*plan);
  refused_.erase(fingerprint);
}

std::string ProgramFitter::advice_for_refused(const FittedList& fitted) const {
  const std::string advice = fitted.others_lack_capacity ? advice_for_other_tiers(engine_.budgets())
                             : !request_.may_swap        ? "let values be offloaded too (FitBudgetOptions::may_swap)"
                             : !request_.may_recompute
                                 ? "let values be computed again too (FitBudgetOptions::may_recompute)"
                                 : "give more device_memory";
  return request_.effort > 0 ? "search longer (FitBudgetOptions::effort), or " + advice : advice;
}

/// By a plan that nobody has asked for: nothing where it does not fit or cannot be executed, and why_not says so. The
/// plan gets the peaks that it has here.
std::optional<InstructionList> ProgramFitter::by_known(ProgramPlan& plan, const WrittenList& written,
                                                       PlanningTools& tools, const std::string& whose,
                                                       std::string& why_not) const {
  try {
    InstructionList list = written.list_of(plan, text_of("fit_budget: ", whose, ": "));
    const Draft draft = checked_draft(list, written, tools, profile_);
    if (!draft.fits) {
      why_not = text_of("by ", whose, " ", plan.facts.name(), " takes ", bytes_text(draft.device_peak_bytes),
                        " of device memory, ", bytes_text(draft.host_peak_bytes), " of host memory and ",
                        bytes_text(draft.disk_peak_bytes), " of disk");
      return std::nullopt;
    }
    plan.device_peak = draft.device_peak_bytes;
    plan.host_peak = draft.host_peak_bytes;
    plan.disk_peak = draft.disk_peak_bytes;
    tools.notes.insert(tools.notes.end(), plan.notes.begin(), plan.notes.end());
    return list;
  } catch (const Error& error) {
    LOG(WARNING) << log_text(error) << ": " << plan.facts.name() << " is planned without it";
    why_not = text_of(whose, " cannot be executed");
    return std::nullopt;
  }
}

std::optional<InstructionList> ProgramFitter::by_restored(const WrittenList& written, const ProgramFacts& facts,
                                                          PlanningTools& tools, std::string& why_not) {
  if (!restored_) return std::nullopt;
  PlanContent& content = restored_->content;
  const ProgramPlan* const known = content.find(facts.fingerprint);
  if (known == nullptr) {
    why_not = restored_->name + has_none_text(content, facts);
    return std::nullopt;
  }
  ProgramPlan plan = *known;
  std::string problem = other_budgets(plan, content.budgets, engine_.budgets());
  if (problem.empty()) problem = forbidden(plan, num_replays(written.list()), request_);
  if (!problem.empty()) {
    why_not = restored_->name + problem;
    return std::nullopt;
  }
  const auto num_notes = static_cast<std::ptrdiff_t>(tools.notes.size());
  std::optional<InstructionList> found = by_known(plan, written, tools, restored_->name, why_not);
  if (found) {
    const std::string origin = text_of("fit_budget: by ", restored_->name, ", of ", content.device, " with ",
                                       bytes_text(content.budgets.device), " of device memory");
    tools.notes.insert(tools.notes.begin() + num_notes, origin);
    keep_to_execute(facts.fingerprint, plan);
    known_.put(facts.fingerprint, KnownPlans::Place::of(written, tools), {.plan = std::move(plan), .origin = origin});
  }
  // One that does not fit stays known: it may be for other home tiers of variables, which are tried in turn.
  return found;
}

KeptTexts ProgramFitter::kept() const {
  KeptTexts texts;
  const FitPlan known = plan();
  if (known.num_programs() > 0) texts[kKeptPlan] = known.text();
  if (profile_ != Profile::nominal()) texts[kKeptProfile] = profile_.json();
  return texts;
}

void ProgramFitter::set_profile(Profile profile) {
  profile_ = std::move(profile);
  known_.forget_seconds(engine_.budgets());
}

void ProgramFitter::take(const KeptTexts& texts, const std::string& from) {
  restored_.reset();
  if (const auto profile = texts.find(kKeptProfile); profile != texts.end()) take_profile(profile->second, from);
  if (const auto plan = texts.find(kKeptPlan); plan != texts.end()) take_plan(plan->second, from);
}

void ProgramFitter::take_profile(const std::string& text, const std::string& from) {
  if (has_own_profile_) return;
  try {
    set_profile(Profile::from_json(text, text_of("fit_budget: the profile in '", from, "': ")));
  } catch (const DataError& error) {
    LOG(WARNING) << log_text(error) << ": planned without it";
  }
}

/// What was planned here before a checkpoint was there, by no profile of this machine, gives way to its plan where that
/// is for these budgets and not forbidden, and so does what was refused.
void ProgramFitter::make_way_for_restored() {
  for (const ProgramPlan& program : restored_->content.programs) {
    const std::string& fingerprint = program.facts.fingerprint;
    if (has_own_profile_ && !refused_.contains(fingerprint)) continue;
    const TierBudgets& now = engine_.budgets();
    const bool would_fit =
        program.device_peak <= now.device && program.host_peak <= now.host && program.disk_peak <= now.disk;
    if (!would_fit || !other_budgets(program, restored_->content.budgets, now).empty()) continue;
    const ProgramPlan* const here = planned_.find(fingerprint);
    // Where nothing may be computed again what was planned here repeats what the program was written to repeat.
    if (!forbidden(program, num_replays(here != nullptr ? *here : program), request_).empty()) continue;
    known_.forget(fingerprint);
    const bool is_given = !given_.empty() && given_.content()->find(fingerprint) != nullptr;
    if (is_given || here == nullptr || here->instructions == program.instructions) continue;
    std::erase_if(planned_.programs, [&](const ProgramPlan& each) { return each.facts.fingerprint == fingerprint; });
  }
}

void ProgramFitter::take_plan(const std::string& text, const std::string& from) {
  const std::string name = text_of("the plan in '", from, "'");
  try {
    const FitPlan plan = FitPlan::from_text(text, text_of("fit_budget: ", name, ": "));
    SF_CHECK_CODE(!plan.empty(), DataError, ErrorCode::plan_file, "fit_budget: ", name, " is empty");
    const ModelFacts model = ModelFacts::of(engine_.graph()), then = plan.content()->model;
    SF_CHECK_CODE(model == then, DataError, ErrorCode::plan_file, "fit_budget: ", name, " is of a model with ",
                  then.text(), "; this one has ", model.text(), model.text() == then.text() ? " of other types" : "");
    restored_ = Origin{name, *plan.content()};
    make_way_for_restored();
    LOG(INFO) << "fit_budget: " << name << " is gone on by"
              << (given_.empty() ? "" : " where the plan that was given has nothing") << ", of " << plan.num_programs()
              << (plan.num_programs() == 1 ? " program" : " programs");
  } catch (const DataError& error) {
    LOG(WARNING) << log_text(error) << ": planned without it";
  }
}

}  // namespace sectionflow
