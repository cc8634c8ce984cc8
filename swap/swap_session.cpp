#include "swap/swap_session.h"

#include <memory>
#include <string>

#include "base/error.h"
#include "runtime/engine.h"
#include "swap/insert_swaps.h"

namespace sectionflow {

void insert_swaps(Session& session, const SwapOptions& options) {
  const auto profile = std::make_shared<const Profile>(options.profile.value_or(Profile::nominal()));
  engine(session).set_instruction_editor(text_of("insert_swaps ", digest_of(*profile)),
                                         [profile](const InstructionList& list, PlanningTools& tools) {
                                           return insert_swaps(list, tools, {.profile = profile.get()});
                                         });
}

}  // namespace sectionflow
