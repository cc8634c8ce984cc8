#include "tests/support/random_rests.h"

#include <random>

#include "schedule/idle_stretches.h"
#include "schedule/insert_rests.h"

namespace sectionflow::testing_support {

Script rest_at_random(const Script& script, PlanningTools& tools, std::uint64_t seed, double share, bool disk) {
  std::mt19937_64 random(seed);
  const auto from_to = [&](int low, int high) {
    return low + static_cast<int>(random() % static_cast<std::uint64_t>(high - low + 1));
  };
  std::vector<Rest> rests;
  for (const IdleStretch& stretch : idle_stretches(tools.draft(script))) {
    if (static_cast<double>(random() % 1000) >= share * 1000) continue;
    Rest rest{.value = stretch.value};
    rest.out = from_to(stretch.begin, stretch.end);
    rest.in = from_to(rest.out, stretch.end);
    if (random() % 2 == 0) rest.hold = from_to(rest.out, rest.in);
    rest.on_disk = disk && random() % 2 == 0;
    rest.disk_out = from_to(rest.out, rest.in);
    rest.disk_in = from_to(rest.disk_out, rest.in);
    rests.push_back(rest);
  }
  return insert_rests(script, rests);
}

}  // namespace sectionflow::testing_support
