#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "fit/drift_watch.h"
#include "fit/fit_budget.h"
#include "fit/fit_list.h"
#include "fit/known_plans.h"
#include "fit/plan_content.h"
#include "fit/plan_file.h"
#include "planning/frontier_cache.h"
#include "runtime/engine.h"
#include "runtime/program_planner.h"
#include "schedule/planning_tools.h"
#include "swap/profile.h"
#include "swap/step_profile.h"

namespace sectionflow {

/// The name of a plan's text among those that a session keeps with its checkpoints.
inline constexpr const char* kKeptPlan = "plan";

/// Who plans the programs of a session that fit_budget was called for: by the plan that was given, by what this session
/// has planned before, by the plan of the checkpoint that it goes on from, or else by a search. Plans again what has
/// come to take longer. docs/planning.md says when.
class ProgramFitter final : public ProgramPlanner {
 public:
  /// How often programs of a session are planned again at most, and after how many steps in a row the first time; each
  /// time it takes twice as many.
  static constexpr int kMostReplans = 6, kStepsInARow = 20;

  /// The engine must outlive it. Throws: ArgumentError as fit_budget.
  ProgramFitter(Engine& engine, const FitBudgetOptions& options);

  /// For a call with options that ask for the same plans: goes on with what it has made.
  void renew(const FitBudgetOptions& options);
  /// What it plans by, that of a checkpoint too; none: the nominal one.
  std::optional<Profile> profile() const;
  /// All that is known for this session.
  FitPlan plan() const;
  /// Whether a program was asked for that neither what was given nor a search has a plan for.
  bool has_refused() const { return !refused_.empty(); }

  InstructionList planned(const InstructionList& written, PlanningTools& tools) override;
  KeptTexts kept() const override;
  void take(const KeptTexts& texts, const std::string& from) override;
  TimesWanted times_wanted(Executable& program) override;
  void note_times(Executable& program, const ExecutionTimes& times) override;
  bool is_due(const Executable& program) const override;
  bool plan_again(Executable& program) override;
  void undo_plan_again(Executable& program, const Error* why) override;

 private:
  bool replaced_plan(Executable& program);
  /// Where plans come from that nobody has asked for.
  struct Origin {
    std::string name;  ///< "the plan in 'run/step-100'"
    PlanContent content;
  };
  /// Of a program, as long as that is there.
  struct Watched {
    const ProgramFitter* by = nullptr;
    std::string fingerprint, name;
    std::optional<DriftWatch> watch;  ///< none: it would be executed as it is by any plan
    bool wants_steps = false, is_due = false;
  };
  /// What planning a program again has changed.
  struct BeforeReplan {
    Watched watched;
    PlanContent planned;
    KnownPlans known;
    std::map<std::string, std::string> again;
    std::set<std::string> refused;
    int num_replans = 0;
  };

  void set_profile(Profile profile);
  /// Whether what is asked for is to be executed, and not to be compared with.
  bool is_for_here(const PlanningTools& tools) const { return tools.budgets() == engine_.budgets(); }
  InstructionList planned_here(const WrittenList& written, const ProgramFacts& facts, PlanningTools& tools);
  std::optional<InstructionList> by_earlier(const WrittenList& written, const ProgramFacts& facts, PlanningTools& tools,
                                            std::string& why_not);
  void keep(const FittedList& fitted, const WrittenList& written, const ProgramFacts& facts, const FitRequest& request,
            const std::string& origin, PlanningTools& tools);
  void keep_to_execute(const std::string& fingerprint, const std::optional<ProgramPlan>& plan);
  const ProgramPlan* given_plan(const ProgramFacts& wanted, const PlanningTools& tools) const;
  InstructionList by_given(const ProgramPlan& plan, const WrittenList& written, PlanningTools& tools);
  void tell_given(const ProgramPlan& plan, const WrittenList& written, const Draft& draft, PlanningTools& tools);
  std::optional<InstructionList> by_known(ProgramPlan& plan, const WrittenList& written, PlanningTools& tools,
                                          const std::string& whose, std::string& why_not) const;
  std::optional<InstructionList> by_restored(const WrittenList& written, const ProgramFacts& facts,
                                             PlanningTools& tools, std::string& why_not);
  std::string tell_search(const InstructionList& list, const ProgramFacts& facts, const std::string& why_not,
                          PlanningTools& tools) const;
  static ProgramPlan described(const FittedList& fitted, const WrittenList& written, ProgramFacts facts);
  std::string advice_for_refused(const FittedList& fitted) const;
  void take_profile(const std::string& text, const std::string& from);
  void make_way_for_restored();
  void take_plan(const std::string& text, const std::string& from);

  Watched watched(const Executable& program) const;
  ExecutedSchedule executed(const Executable& program, const ConcreteGraph& graph) const;
  double predicted_seconds(const Executable& program, const ConcreteGraph& graph) const;

  Engine& engine_;
  FitRequest request_;
  Profile profile_;
  bool has_own_profile_;  // that was given or measured here: that of a checkpoint does not take its place
  FitPlan given_;
  PlanContent planned_;               // what was given, and what was planned here
  KnownPlans known_;                  // of them all, what is not executed too
  std::set<std::string> refused_;     // fingerprints of programs that no plan is known for that can be executed here
  std::vector<ProgramFacts> served_;  // by the plan that was given
  std::optional<Origin> restored_;    // of a checkpoint
  planning::FrontierCache frontiers_;
  bool has_told_of_more_ = false;  // that a plan which was given is for less memory
  Replan replan_;
  int num_replans_ = 0;
  std::map<std::string, std::string> again_;  // by fingerprint: why programs were planned again, whatever was given
  std::optional<BeforeReplan> before_replan_;
  std::set<std::string> with_policies_;  // fingerprints of programs that were planned last with policies of sections
};

}  // namespace sectionflow
