#include "tests/support/random_offloads.h"

#include <random>

#include "schedule/idle_stretches.h"
#include "schedule/insert_offloads.h"

namespace sectionflow::testing_support {

InstructionList offload_at_random(const InstructionList& list, PlanningTools& tools, std::uint64_t seed, double share,
                                  bool disk) {
  std::mt19937_64 random(seed);
  const auto from_to = [&](int low, int high) {
    return low + static_cast<int>(random() % static_cast<std::uint64_t>(high - low + 1));
  };
  std::vector<Offload> offloads;
  for (const IdleStretch& stretch : idle_stretches(tools.draft(list))) {
    if (static_cast<double>(random() % 1000) >= share * 1000) continue;
    Offload offload{.value = stretch.value};
    offload.out = from_to(stretch.begin, stretch.end);
    offload.in = from_to(offload.out, stretch.end);
    if (random() % 2 == 0) offload.hold = from_to(offload.out, offload.in);
    offload.on_disk = disk && random() % 2 == 0;
    offload.disk_out = from_to(offload.out, offload.in);
    offload.disk_in = from_to(offload.disk_out, offload.in);
    offloads.push_back(offload);
  }
  return insert_offloads(list, offloads);
}

}  // namespace sectionflow::testing_support
