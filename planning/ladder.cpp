#include "planning/ladder.h"

namespace sectionflow::planning {

std::int64_t Ladder::budget_of(int rung) const {
  const std::int64_t steps = num_rungs - 1, parts = 2 * steps * steps;
  const std::int64_t span = most - least, share = static_cast<std::int64_t>(rung) * (rung + steps);
  return least + span / parts * share + span % parts * share / parts;
}

int Ladder::last_within(std::int64_t bytes) const {
  int rung = num_rungs - 1;
  while (rung >= 0 && budget_of(rung) > bytes) --rung;
  return rung;
}

}  // namespace sectionflow::planning
