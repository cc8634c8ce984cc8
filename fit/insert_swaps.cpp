#include "fit/insert_swaps.h"

#include <memory>
#include <string>

#include "base/error.h"
#include "fit/fit_list.h"
#include "runtime/engine.h"

namespace sectionflow {

void insert_swaps(Session& session, const SwapOptions& options) {
  if (options.profile) check_profile(*options.profile, "insert_swaps");
  const auto profile = std::make_shared<const Profile>(options.profile.value_or(Profile::nominal()));
  engine(session).set_instruction_editor(text_of("insert_swaps ", digest_of(*profile)),
                                         [profile](const InstructionList& list, PlanningTools& tools) {
                                           const FitRequest request{.profile = profile.get(),
                                                                    .may_recompute = false,
                                                                    .may_split = false,
                                                                    .tells_exact_least = true,
                                                                    .tells_short_tier = true,
                                                                    .name = "insert_swaps"};
                                           return fit_list(list, tools, request).list;
                                         });
}

}  // namespace sectionflow
