#pragma once

#include <cstdint>

namespace sectionflow::planning {

/// Budgets from the least to the most, closer together where memory is short and each byte of it dear: the step to the
/// next grows linearly, threefold from the lowest to the highest.
struct Ladder {
  int num_rungs = 2;                 ///< 2 to kMostRungs
  std::int64_t least = 0, most = 0;  ///< bytes; 0 <= least <= most

  /// Bytes; ascending.
  std::int64_t budget_of(int rung) const;
  /// The last rung whose budget is at most so many bytes; -1: none.
  int last_within(std::int64_t bytes) const;

  /// More are never worth their time, and shares of a budget stay within 64 bits.
  static constexpr int kMostRungs = 1000;
};

}  // namespace sectionflow::planning
