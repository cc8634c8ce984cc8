#include "fit/known_plans.h"

#include <algorithm>
#include <utility>

namespace sectionflow {

bool KnownPlans::contains(const std::string& fingerprint, const TierBudgets& budgets) const {
  const auto here = found_.find(fingerprint);
  return here != found_.end() &&
         std::ranges::any_of(here->second, [&](const Entry& entry) { return entry.place.budgets == budgets; });
}

const KnownPlans::Found* KnownPlans::find(const std::string& fingerprint, const Place& place) const {
  const auto here = found_.find(fingerprint);
  if (here == found_.end()) return nullptr;
  const auto entry = std::ranges::find(here->second, place, &Entry::place);
  return entry == here->second.end() ? nullptr : &entry->found;
}

void KnownPlans::put(const std::string& fingerprint, const Place& place, Found found) {
  std::vector<Entry>& here = found_[fingerprint];
  std::erase_if(here, [&](const Entry& entry) { return entry.place == place; });
  here.push_back({place, std::move(found)});
}

void KnownPlans::forget_seconds(const TierBudgets& budgets) {
  for (auto& [fingerprint, here] : found_) {
    std::erase_if(here, [&](const Entry& entry) { return entry.place.budgets != budgets; });
    for (Entry& entry : here) {
      entry.found.seconds = entry.found.nothing_below = 0;
      entry.found.refusal.reset();
    }
  }
}

}  // namespace sectionflow
