// Which algorithms of libraries a session's kernels run.

#include <glog/logging.h>

#include <algorithm>

#include "base/bytes.h"
#include "runtime/session.h"

namespace sectionflow {

void Session::use_algorithms(const AlgorithmChoices& choices) {
  const auto inside = enter();
  const std::vector<std::string> kept = device_->choices().add(choices);
  if (!kept.empty()) {
    LOG(WARNING) << kept.size() << " of " << choices.algorithms.size()
                 << " stored algorithms are not used, since this process already runs others; results may differ in"
                 << " their last bits from those of the process that stored them; first: " << kept.front();
  }
  const auto strange = std::count_if(choices.algorithms.begin(), choices.algorithms.end(),
                                     [&](const auto& choice) { return !device_->has_problem(choice.first); });
  if (strange > 0) {
    LOG(INFO) << strange << " of " << choices.algorithms.size()
              << " stored algorithms are for other GPUs or libraries than " << device_name()
              << " has: kept, but not used here";
  }
}

TrialMemory Session::trial_memory() {
  // What a forward half has left lies in the region.
  if (!options_.device.autotune || pending_) return {};
  // Before there is an arena, its bytes may be taken for as long as a trial lasts.
  if (!arena_) return {.most_allocated = budgets_.device};
  const std::size_t begin = std::min(round_up(layout_.end_bytes), budgets_.device);
  return {.lent = {arena_->data() + begin, budgets_.device - begin}};
}

}  // namespace sectionflow
