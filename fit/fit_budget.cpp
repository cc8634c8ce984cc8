#include "fit/fit_budget.h"

#include <memory>

#include "fit/plan_budgets.h"
#include "runtime/engine.h"

namespace sectionflow {

void fit_budget(Session& session, const FitBudgetOptions& options, Where where) {
  const FitRequest request = call_at(where, [&] { return request_of(options, "fit_budget"); });
  const auto profile = std::make_shared<const Profile>(options.profile.value_or(Profile::nominal()));
  const std::string key =
      text_of("fit_budget ", options.may_recompute, options.may_swap, " ", options.effort, " ", digest_of(*profile));
  engine(session).set_instruction_editor(
      key,
      [profile, request](const InstructionList& list, PlanningTools& tools) {
        FitRequest asked = request;
        asked.profile = profile.get();
        return fit_list(list, tools, asked);
      },
      true);
}

}  // namespace sectionflow
