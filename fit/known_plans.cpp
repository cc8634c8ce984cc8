#include "fit/known_plans.h"

#include <algorithm>
#include <utility>

namespace sectionflow {

KnownPlans::Place KnownPlans::Place::of(const WrittenList& written, const PlanningTools& tools) {
  const VariableLayout& variables = tools.variables();
  Place place{tools.budgets(), variables.end_bytes, variables.host_end_bytes, variables.disk_end_bytes};
  for (const NodeId variable : written.variables()) place.tiers.push_back(variables.home_of(variable));
  return place;
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
