#include "fit/program_fitter.h"

#include <glog/logging.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "base/bytes.h"
#include "data/tensor_hashes.h"
#include "fit/make_problem.h"
#include "fit/plan_budgets.h"
#include "schedule/check_schedule.h"
#include "swap/simulate.h"

namespace sectionflow {
namespace {

Fact plan_anew() {
  return hint("leave FitBudgetOptions::plan out, plan, and save that plan (save_plan)");
}

/// What the plan has for the same fetches and updates; empty where it has nothing.
std::string nearest_text(const PlanContent& content, const ProgramFacts& wanted) {
  for (const ProgramPlan& program : content.programs) {
    const ProgramFacts& known = program.facts;
    if (!known.asks_for_the_same(wanted)) continue;
    if (known.feeds != wanted.feeds) return ", only of " + known.feeds_text();
    if (known.operations == wanted.operations) return ", only run in another way";
    return text_of(", only for another graph, of ", known.nodes, " operations");
  }
  return {};
}

std::string has_none_text(const PlanContent& content, const ProgramFacts& wanted) {
  return text_of(" has none for ", wanted.name(), " of ", wanted.feeds_text(), nearest_text(content, wanted));
}

/// Little more memory makes no other plan: what is a share of the memory that is free differs from start to start.
bool has_grown(std::size_t now, std::size_t then) {
  return now > then && now - then > then / 20;
}

/// Why a plan that was made for some budgets is not to be taken for others, as far as these tell.
std::string other_budgets(const ProgramPlan& plan, const TierBudgets& then, const TierBudgets& now) {
  if (has_grown(now.device, then.device)) {
    return text_of(" is for ", bytes_text(then.device), " of device memory, and there are ", bytes_text(now.device));
  }
  const bool was_scarce = plan.host_peak > then.host / 2 || (then.disk > 0 && plan.disk_peak > then.disk / 2);
  if (was_scarce && (has_grown(now.host, then.host) || has_grown(now.disk, then.disk))) {
    return text_of(" is for ", bytes_text(then.host), " of host memory and ", bytes_text(then.disk),
                   " of disk, and there are ", bytes_text(now.host), " and ", bytes_text(now.disk));
  }
  return {};
}

bool offloads(const ProgramPlan& plan) {
  return std::ranges::any_of(plan.instructions,
                             [](const PlannedInstruction& each) { return each.written < 0 && is_transfer(each.kind); });
}
bool runs_in_parts(const ProgramPlan& plan) {
  return std::ranges::any_of(plan.instructions, [](const PlannedInstruction& each) { return each.parts > 1; });
}
/// More than the program does as it was written.
bool computes_again(const ProgramPlan& plan, const InstructionList& written) {
  return std::ranges::count(plan.instructions, true, &PlannedInstruction::replay) >
         std::ranges::count(written.instructions, true, &Instruction::replay);
}

/// Why it is not what the options ask for.
std::string forbidden(const ProgramPlan& plan, const InstructionList& written, const FitRequest& request) {
  if (!request.may_swap && offloads(plan)) return " offloads, which is not allowed";
  if (!request.may_split && runs_in_parts(plan)) return " runs in parts, which is not allowed";
  return !request.may_recompute && computes_again(plan, written) ? " computes again, which is not allowed" : "";
}

std::string advice_for_other_tiers(const TierBudgets& budgets) {
  return budgets.disk > 0 ? "give more host_memory or a larger disk, which have no room for what would be offloaded"
                          : "give more host_memory, which has no room for what would be offloaded, or a disk "
                            "(SessionOptions::disk)";
}

std::string first_line(const Error& error) {
  return error.message().substr(0, error.message().find('\n'));
}

/// Of a list by anybody for the program that was written, within the budgets or not, with what it is predicted to take:
/// in parts no less than as a whole, as PartsFitter counts it. Throws: InternalError for a list whose values are not
/// where they are read.
Draft checked_draft(const InstructionList& list, const WrittenList& written, PlanningTools& tools,
                    const Profile& profile) {
  Draft draft = tools.draft(list);
  StepTimes times(tools, profile);
  tools.predicted_seconds = predict(draft, times).seconds;
  if (std::ranges::any_of(list.instructions, [](const Instruction& each) { return each.parts > 1; })) {
    Draft whole = tools.draft(without_repeats(written.list()));
    tools.predicted_seconds = std::max(tools.predicted_seconds, predict(whole, times).seconds);
  }
  check_schedule(draft.schedule, tools.kernels(), draft.storage, draft.plan, tools.graph().graph(),
                 tools.guard_bytes());
  return draft;
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
  const ProgramPlan* const given = again_.contains(facts.fingerprint) ? nullptr : given_plan(facts, tools);
  if (given != nullptr) {
    InstructionList by_plan = by_given(*given, written, tools);
    served_.push_back(given->facts);
    return by_plan;
  }
  std::string why_not;
  FitRequest request = request_;
  request.policies = tools.policies;
  // A short search that finds nothing is followed by a long one, which is not to hang on what others take.
  if (request.effort == 0) request.only_below = tools.only_below;
  // By its fingerprint alone nobody can tell that a plan keeps to policies.
  const std::size_t on_disk = tools.variables().disk_end_bytes;
  // What other budgets would do is asked to be compared with, and is not kept.
  if (tools.budgets() != engine_.budgets()) return fit_list(list, tools, request).list;
  const bool has_policies = request.policies.may_repeat || request.policies.offloads;
  if (has_policies) {
    with_policies_.insert(facts.fingerprint);
  } else {
    with_policies_.erase(facts.fingerprint);
    if (is_known_useless(facts.fingerprint, tools)) return list;
    if (const ProgramPlan* const known = known_beside(facts.fingerprint, on_disk); known != nullptr) {
      ProgramPlan before = *known;
      if (auto found = by_known(before, written, tools, "what was planned before", why_not)) {
        // A search counts some plans as slower than they are alone.
        tools.predicted_seconds = std::max(tools.predicted_seconds, seconds_beside(facts.fingerprint, on_disk));
        planned_.put(std::move(before));
        refused_.erase(facts.fingerprint);
        return *std::move(found);
      }
    }
    if (auto found = by_restored(list, written, facts, tools, why_not)) return *std::move(found);
  }
  tell_search(list, facts, why_not, tools);
  FittedList fitted = fit_list(list, tools, request);
  PlannedBeside& beside = planned_beside_[facts.fingerprint][on_disk];
  std::optional<ProgramPlan> plan = described(fitted, written, facts);
  if (std::isfinite(request.only_below) && !(plan && fitted.seconds < request.only_below)) {
    beside = {.nothing_below = request.only_below};
  } else if (plan) {
    beside = {.plan = plan, .seconds = fitted.seconds};
    planned_.put(*std::move(plan));
    refused_.erase(facts.fingerprint);
  } else {
    beside = {};
    refused_.insert(facts.fingerprint);
    tools.advice = fitted.others_lack_capacity ? advice_for_other_tiers(engine_.budgets())
                   : !request.may_swap         ? "let values be offloaded too (FitBudgetOptions::may_swap)"
                   : !request.may_recompute    ? "let values be computed again too (FitBudgetOptions::may_recompute)"
                                               : "give more device_memory";
    if (request_.effort > 0) tools.advice = "search longer (FitBudgetOptions::effort), or " + tools.advice;
    tools.minimum_is_exact = false;
  }
  return std::move(fitted.list);
}

/// What is for these budgets; nothing where nothing fits.
std::optional<ProgramPlan> ProgramFitter::described(const FittedList& fitted, const WrittenList& written,
                                                    ProgramFacts facts) const {
  const TierBudgets& budgets = engine_.budgets();
  if (fitted.device_peak > budgets.device || fitted.host_peak > budgets.host || fitted.disk_peak > budgets.disk)
    return std::nullopt;
  ProgramPlan plan{.facts = std::move(facts),
                   .device_peak = fitted.device_peak,
                   .host_peak = fitted.host_peak,
                   .disk_peak = fitted.disk_peak};
  for (const std::string& note : fitted.notes) plan.notes.push_back(plain_text(note));
  written.describe(fitted.list, plan);
  return plan;
}

/// Where it fits as it is there is nothing to search for, and nothing to tell.
void ProgramFitter::tell_search(const InstructionList& list, const ProgramFacts& facts, const std::string& why_not,
                                PlanningTools& tools) const {
  if ((given_.empty() && why_not.empty()) || tools.draft(list).fits) return;
  if (!why_not.empty()) {
    const std::string text = text_of("fit_budget: ", why_not, ": it is searched for");
    LOG(INFO) << text;
    tools.notes.push_back(text);
  }
  if (given_.empty()) return;
  const std::string text =
      text_of("fit_budget: the plan that was given", has_none_text(*given_.content(), facts), ": it is searched for");
  // A small last batch is no news where the plan has been of use.
  LOG_IF(INFO, !served_.empty()) << text;
  LOG_IF(WARNING, served_.empty()) << text;
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
  refused_.insert(plan.facts.fingerprint);
  const std::string where = "fit_budget: the plan that was given: ";
  InstructionList list = written.list_of(plan, where);
  try {
    const Draft draft = checked_draft(list, written, tools, profile_);
    tell_given(plan, written, draft, tools);
    if (draft.fits) refused_.erase(plan.facts.fingerprint);
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
    LOG(WARNING) << first_line(error) << ": " << plan.facts.name() << " is planned without it";
    why_not = text_of(whose, " cannot be executed");
    return std::nullopt;
  }
}

std::optional<InstructionList> ProgramFitter::by_restored(const InstructionList& list, const WrittenList& written,
                                                          const ProgramFacts& facts, PlanningTools& tools,
                                                          std::string& why_not) {
  if (!restored_) return std::nullopt;
  PlanContent& content = restored_->content;
  const ProgramPlan* const known = content.find(facts.fingerprint);
  if (known == nullptr) {
    why_not = restored_->name + has_none_text(content, facts);
    return std::nullopt;
  }
  ProgramPlan plan = *known;
  std::string problem = other_budgets(plan, content.budgets, engine_.budgets());
  if (problem.empty()) problem = forbidden(plan, list, request_);
  if (!problem.empty()) {
    why_not = restored_->name + problem;
    return std::nullopt;
  }
  const auto num_notes = static_cast<std::ptrdiff_t>(tools.notes.size());
  std::optional<InstructionList> found = by_known(plan, written, tools, restored_->name, why_not);
  if (found) {
    tools.notes.insert(tools.notes.begin() + num_notes,
                       text_of("fit_budget: by ", restored_->name, ", of ", content.device, " with ",
                               bytes_text(content.budgets.device), " of device memory"));
    planned_.put(std::move(plan));
    refused_.erase(facts.fingerprint);
  }
  // One that does not fit stays known: it may be for other home tiers of variables, which are tried in turn.
  return found;
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
    LOG(WARNING) << first_line(error) << ": planned without it";
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
    LOG(INFO) << "fit_budget: " << name << " is gone on by"
              << (given_.empty() ? "" : " where the plan that was given has nothing") << ", of " << plan.num_programs()
              << (plan.num_programs() == 1 ? " program" : " programs");
  } catch (const DataError& error) {
    LOG(WARNING) << first_line(error) << ": planned without it";
  }
}

}  // namespace sectionflow
