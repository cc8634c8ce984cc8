#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "planning/problem.h"

namespace sectionflow::planning {

/// The most that has to be in device memory at once. Nothing runs below it.
struct WorkingSet {
  std::int64_t bytes = 0;
  int operation = -1;  ///< whose it is (`working_set` of evaluate.h); -1: of what is given, or of what the end needs
};
WorkingSet largest_working_set(const Problem& problem, const Link& link = {});

struct BoundOptions {
  /// Values that leave device memory may come back over it; by itself there is none.
  Link link{};
  /// Looks at arcs of networks, after which operations that are left are not examined any more: the bound is then that
  /// of the others, of which those with the largest knapsacks come first. The same on every machine.
  std::int64_t effort = 3'000'000'000;
  std::function<void()> check{};  ///< before each operation that is examined; what it throws ends it
};

/// No plan within the budget takes less time than all operations once and `extra_seconds`, in whatever order it
/// executes them. See docs/planning.md for why.
struct LowerBound {
  double extra_seconds = 0;     ///< infinite: no plan exists
  double seconds_per_byte = 0;  ///< by how much the bound sinks for another byte of budget: the shadow price
  int operation = -1;           ///< at whose first execution memory is that short; -1: nowhere
  /// The values that the cheapest selection keeps across that operation, beside its own inputs and outputs, and the
  /// operations that it executes again afterwards; ascending. Without a link within the budget, but not always
  /// sufficient for a plan.
  std::vector<int> kept, repeated;
};

/// A bound for each of the budgets, in bytes. Throws: ArgumentError as `check_problem`, and for a link with a rate or a
/// latency that is negative or not finite.
std::vector<LowerBound> lower_bounds(const Problem& problem, const std::vector<std::int64_t>& budgets,
                                     const BoundOptions& options = {});
LowerBound lower_bound(const Problem& problem, std::int64_t budget, const BoundOptions& options = {});

/// A weaker bound that is quickly found, of the same meaning: the fractional knapsack of the values that must be kept
/// or made again, each for its producer's time alone. Extra seconds; infinite: no plan exists.
double knapsack_bound(const Problem& problem, std::int64_t budget, const Link& link = {});

}  // namespace sectionflow::planning
