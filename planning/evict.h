#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "planning/sequence.h"

namespace sectionflow::planning {

/// Which value leaves device memory when it is full: the one with the least
/// chain^cost / (bytes^size * distance^reach), `chain` being the seconds that it takes to have it again with what is
/// not resident of its ancestors, `distance` the number of operations until its next reader in the given order.
struct EvictWeights {
  double cost = 1, size = 1, reach = 1;
  std::string text() const;
};

/// The 80 combinations that a search tries, those first that are best most often.
std::vector<EvictWeights> evict_variants();

/// The executions of a walk through the given order that evicts values where the budget is passed and executes their
/// producers again where they are read. `kept`, where not empty, says of each value whether the others are to go first.
/// The order may still pass the budget where nothing could be evicted. None where it took too many executions.
std::optional<std::vector<int>> evict_order(const FlatProblem& problem, std::int64_t budget,
                                            const EvictWeights& weights, std::span<const std::uint8_t> kept = {});

}  // namespace sectionflow::planning
