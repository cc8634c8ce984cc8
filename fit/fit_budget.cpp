#include "fit/fit_budget.h"

#include <memory>

#include "fit/fit_list.h"
#include "runtime/engine.h"

namespace sectionflow {

void fit_budget(Session& session, const FitBudgetOptions& options, Where where) {
  call_at(where, [&] {
    SF_CHECK(options.effort >= 0, ArgumentError, "fit_budget: an effort of ", options.effort,
             " changes, wanted at least 0", hint("0 is the default"));
    SF_CHECK(options.may_recompute || options.may_swap, ArgumentError,
             "fit_budget: neither recomputing nor swapping is allowed", hint("allow one of them"));
  });
  const auto profile = std::make_shared<const Profile>(options.profile.value_or(Profile::nominal()));
  const FitRequest request{.profile = nullptr,
                           .may_recompute = options.may_recompute,
                           .may_swap = options.may_swap,
                           .order_fixed = false,
                           .effort = options.effort};
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
