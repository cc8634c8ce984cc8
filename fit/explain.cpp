#include "fit/explain.h"

#include "base/error.h"
#include "fit/explain_program.h"
#include "fit/plan_budgets.h"
#include "fit/program_fitter.h"
#include "runtime/engine.h"

namespace sectionflow {
namespace {

constexpr int kFewestBudgets = 2, kMostBudgets = 1000;

void check(const ExplainOptions& options) {
  const int budgets = options.num_budgets;
  SF_CHECK(budgets == 0 || (budgets >= kFewestBudgets && budgets <= kMostBudgets), ArgumentError, "explain: ", budgets,
           " budgets, wanted ", kFewestBudgets, " to ", kMostBudgets, hint("0 plans no frontier"));
  (void)request_of(options.fit, "explain");
}

}  // namespace

Explanation explain(Session& session, const ExplainOptions& options, Where where) {
  return call_at(where, [&] {
    check(options);
    if (options.fit.profile) check_profile(*options.fit.profile, "explain");
    Engine& behind = engine(session);
    const auto inside = behind.enter();
    const Program* program = behind.latest_program();
    SF_CHECK(program != nullptr, ArgumentError, "explain: the session has no program that it planned or ran last",
             hint("call its plan() or run() first"));
    SF_CHECK(program->generation == behind.graph().generation(), ArgumentError,
             "explain: the graph has changed since that program was planned", hint("call plan() or run() again"));
    const ConcreteGraph graph(behind.graph(), program->signature);
    FitBudgetOptions fit = options.fit;
    const auto* const fitter = dynamic_cast<const ProgramFitter*>(behind.planner());
    if (!fit.profile && fitter != nullptr) fit.profile = fitter->profile();
    const Profile profile = fit.profile.value_or(Profile::nominal());
    StepTimes times(graph, program->kernels, behind.carrier(), behind.options().link_bandwidth, profile);
    Explanation explanation = explain_program(*program, graph, times);
    explanation.is_nominal = !fit.profile;
    if (!options.price && options.num_budgets == 0) return explanation;
    explanation.no_price = BudgetPlanner::why_not(*program);
    if (!explanation.no_price.empty()) return explanation;
    PlanningTools tools = behind.tools_for(*program, graph);
    const auto entered = tools.device().enter();
    BudgetPlanner planner(*program, tools, fit);
    if (options.price) explanation.price = planner.price(explanation.budget_bytes);
    if (options.num_budgets > 0) explanation.frontier = planner.frontier(options.num_budgets);
    return explanation;
  });
}

}  // namespace sectionflow
