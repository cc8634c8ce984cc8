#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "fit/budget_frontier.h"
#include "fit/explain.h"
#include "fit/parts_fitter.h"
#include "planning/problem.h"
#include "schedule/program.h"

namespace sectionflow {

/// How fit_list is asked, by what a user says; the profile is left to the caller. Throws: ArgumentError that `what`
/// begins, for an effort below 0, or where neither recomputing nor swapping is allowed.
FitRequest request_of(const FitBudgetOptions& options, const char* what);

/// What fit_budget makes of one program's step under other budgets of device memory than its own. The search for what
/// is computed again is made once.
class BudgetPlanner {
 public:
  /// Why there is none for a program; empty: there is one.
  static std::string why_not(const Program& program);

  /// `tools`: for the program. All must outlive this. Throws: ArgumentError as request_of.
  BudgetPlanner(const Program& program, PlanningTools& tools, const FitBudgetOptions& options);

  MemoryPrice price(std::size_t budget_bytes);
  BudgetFrontier frontier(int num_budgets);

 private:
  /// Under each of these budgets, ascending. Their bounds are worked out together.
  std::vector<BudgetPoint> points(const std::vector<std::size_t>& budgets);
  struct Planned {
    BudgetPoint point;
    std::size_t least_bytes = 0;  ///< ListFitter::least_device_bytes
  };
  /// Each budget is planned once.
  const Planned& planned(std::size_t budget_bytes);
  /// In which anything is found to fit.
  std::size_t smallest_budget();
  const planning::Problem& problem();
  FitRequest request();

  const ProgramReport& report_;
  PlanningTools& tools_;
  const TierBudgets budgets_;
  const FitBudgetOptions& options_;
  const Profile profile_;
  const InstructionList list_;
  std::map<std::size_t, Planned> planned_;
  std::string stage_;  // which budget is planned, for who is told
  PartsFitter fitter_;
  std::optional<planning::Problem> problem_;  // that bounds what any plan takes
};

}  // namespace sectionflow
