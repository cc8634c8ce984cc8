#include "fit/fit_budget.h"

#include <glog/logging.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/whole_file.h"
#include "data/tensor_hashes.h"
#include "fit/plan_budgets.h"
#include "fit/plan_content.h"
#include "runtime/engine.h"
#include "schedule/check_schedule.h"
#include "swap/simulate.h"

namespace sectionflow {
namespace {

/// Fits the lists of a session's programs, and keeps what it has made of them. Copies are of the same.
class BudgetEditor {
 public:
  BudgetEditor(FitRequest request, Profile profile, FitPlan given)
      : state_(std::make_shared<State>(State{std::move(request), std::move(profile), std::move(given), {}, {}})) {
    if (!state_->given.empty()) state_->planned = *state_->given.content();
    state_->request.profile = &state_->profile;
  }

  /// Goes on with what it has made, for who asks for the same again.
  void renew(FitRequest request) const {
    request.profile = &state_->profile;
    state_->request = std::move(request);
  }

  InstructionList operator()(const InstructionList& list, PlanningTools& tools) const {
    const WrittenList written(list, tools.graph());
    ProgramPlan program{.facts = written.facts()};
    if (const ProgramPlan* const known = known_plan(program.facts, tools)) {
      InstructionList planned = planned_list(*known, written, tools);
      state_->served.push_back(known->facts);
      return planned;
    }
    // Where it fits as it is there is nothing to search for.
    if (!state_->given.empty() && !tools.draft(list).fits) {
      const std::string text =
          text_of("fit_budget: the plan that was given has none for ", program.facts.name(), " of ",
                  program.facts.feeds_text(), nearest_text(program.facts), ": it is searched for");
      // A small last batch is no news where the plan has been of use.
      LOG_IF(INFO, !state_->served.empty()) << text;
      LOG_IF(WARNING, state_->served.empty()) << text;
    }
    FittedList fitted = fit_list(list, tools, state_->request);
    program.device_peak = fitted.device_peak;
    program.host_peak = fitted.host_peak;
    program.disk_peak = fitted.disk_peak;
    const TierBudgets& budgets = tools.budgets();
    const bool fits =
        program.device_peak <= budgets.device && program.host_peak <= budgets.host && program.disk_peak <= budgets.disk;
    if (!fits) return std::move(fitted.list);
    for (const std::string& note : fitted.notes) program.notes.push_back(plain_text(note));
    written.describe(fitted.list, program);
    state_->planned.put(std::move(program));
    return std::move(fitted.list);
  }

  /// All that is known, of this session.
  FitPlan plan(const Engine& session) const {
    PlanContent content = state_->planned;
    content.device = plain_text(session.device().name());
    content.budgets = session.budgets();
    const bool is_nominal = state_->profile == Profile::nominal();
    content.profile = is_nominal ? "nominal" : text_hash(state_->profile.json());
    content.model = ModelFacts::of(session.graph());
    return FitPlan(std::make_shared<const PlanContent>(std::move(content)));
  }

 private:
  struct State {
    FitRequest request;
    Profile profile;
    FitPlan given;
    PlanContent planned;               // of the plan that was given, and what was searched for
    std::vector<ProgramFacts> served;  // by the plan that was given
  };

  /// What the plan that was given has for the program; nullptr where it has none.
  const ProgramPlan* known_plan(const ProgramFacts& wanted, const PlanningTools& tools) const {
    if (state_->given.empty()) return nullptr;
    const PlanContent& given = *state_->given.content();
    if (const ProgramPlan* const known = given.find(wanted.fingerprint)) return known;
    const ModelFacts model = ModelFacts::of(tools.graph().graph());
    SF_CHECK_CODE(model == given.model, DataError, ErrorCode::plan_file, "fit_budget: the plan is of a model with ",
                  given.model.text(), "; this one has ", model.text(),
                  model.text() == given.model.text() ? " of other types" : "", plan_anew());
    return nullptr;
  }

  /// What the plan that was given has for the same fetches and updates; empty where it has nothing.
  std::string nearest_text(const ProgramFacts& wanted) const {
    for (const ProgramPlan& program : state_->given.content()->programs) {
      const ProgramFacts& known = program.facts;
      if (!known.asks_for_the_same(wanted)) continue;
      if (known.feeds != wanted.feeds) return ", only of " + known.feeds_text();
      if (known.operations == wanted.operations) return ", only run in another way";
      return text_of(", only for another graph, of ", known.nodes, " operations");
    }
    return {};
  }

  static Fact plan_anew() { return hint("leave FitBudgetOptions::plan out, plan, and save that plan (save_plan)"); }

  /// Checked as if anybody had written it, then placed and held against the budgets as any other.
  InstructionList planned_list(const ProgramPlan& plan, const WrittenList& written, PlanningTools& tools) const {
    const std::string where = "fit_budget: the plan that was given: ";
    InstructionList list = written.list_of(plan, where);
    try {
      Draft draft = tools.draft(list);
      StepTimes times(tools, state_->profile);
      tools.predicted_seconds = predict(draft, times).seconds;
      check_schedule(draft.schedule, tools.kernels(), draft.storage, draft.plan, tools.graph().graph(),
                     tools.guard_bytes());
      tell(plan, draft, tools);
    } catch (const InternalError& error) {
      throw DataError(error_text_of(where, plan.facts.name(), " cannot be executed: ", error.message(), plan_anew()),
                      ErrorCode::plan_file);
    }
    return list;
  }

  void tell(const ProgramPlan& plan, const Draft& draft, PlanningTools& tools) const {
    const PlanContent& given = *state_->given.content();
    tools.notes.push_back(text_of("fit_budget: by a plan that was given, of ", given.device, " with ",
                                  bytes_text(given.budgets.device), " of device memory"));
    if (draft.device_peak_bytes != plan.device_peak) {
      tools.notes.push_back(
          text_of("fit_budget: where it was saved it took ", bytes_text(plan.device_peak), " of device memory"));
    }
    tools.notes.insert(tools.notes.end(), plan.notes.begin(), plan.notes.end());
    if (draft.fits) return;
    tools.advice = text_of("plan anew, without the plan that was given, which is for ",
                           bytes_text(given.budgets.device), " (FitBudgetOptions::plan)");
    tools.minimum_is_exact = false;
  }

  std::shared_ptr<State> state_;
};

}  // namespace

void fit_budget(Session& session, const FitBudgetOptions& options, Where where) {
  const FitRequest request = call_at(where, [&] { return request_of(options, "fit_budget"); });
  const Profile profile = options.profile.value_or(Profile::nominal());
  const std::string key = text_of("fit_budget ", options.may_recompute, options.may_swap, " ", options.effort, " ",
                                  digest_of(profile), " ", text_hash(options.plan.text()));
  const auto* const before = engine(session).fitting_editor(key);
  if (before != nullptr) {
    // The programs that it has compiled stay, and so does what it knows of them.
    const auto known = *before;
    known.target<BudgetEditor>()->renew(request);
    engine(session).set_instruction_editor(key, known, true);
    return;
  }
  engine(session).set_instruction_editor(key, BudgetEditor(request, profile, options.plan), true);
}

FitPlan plan_of(const Session& session, Where where) {
  return call_at(where, [&] {
    const BudgetEditor* const editor = engine(session).instruction_editor().target<BudgetEditor>();
    SF_CHECK(editor != nullptr, ArgumentError, "plan_of: fit_budget does not plan for this session",
             hint("call fit_budget(session) first"));
    return editor->plan(engine(session));
  });
}

void save_plan(const Session& session, const std::string& path, Where where) {
  call_at(where, [&] {
    const FitPlan plan = plan_of(session, where);
    SF_CHECK(plan.num_programs() > 0, ArgumentError, "save_plan: nothing has been planned for this session yet",
             hint("run a step first, or plan one (Session::plan, GraphSectionManager::plan)"));
    write_whole_file(path, plan.text(), "save_plan");
  });
}

}  // namespace sectionflow
