#include "swap/swap_session.h"

#include <functional>
#include <memory>
#include <string>

#include "base/error.h"
#include "runtime/engine.h"
#include "swap/insert_swaps.h"

namespace sectionflow {
namespace {

/// A number that tells profiles apart.
std::size_t digest_of(const Profile& profile) {
  std::size_t digest = profile.kernel_seconds.size();
  const auto add = [&](std::size_t hash) { digest = digest * 1'000'003 + hash; };
  for (const auto& [key, seconds] : profile.kernel_seconds) {
    add(std::hash<std::string>()(key));
    add(std::hash<double>()(seconds));
  }
  for (double number : {profile.flops, profile.memory_bandwidth, profile.launch_seconds, profile.link_out,
                        profile.link_in, profile.disk_out, profile.disk_in}) {
    add(std::hash<double>()(number));
  }
  return digest;
}

}  // namespace

void insert_swaps(Session& session, const SwapOptions& options) {
  const auto profile = std::make_shared<const Profile>(options.profile.value_or(Profile::nominal()));
  engine(session).set_instruction_editor(text_of("insert_swaps ", digest_of(*profile)),
                                         [profile](const InstructionList& list, PlanningTools& tools) {
                                           return insert_swaps(list, tools, {.profile = profile.get()});
                                         });
}

}  // namespace sectionflow
