#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "planning/flat_problem.h"
#include "planning/problem.h"

namespace sectionflow::planning {

struct StartOptions {
  std::int64_t budget = 0;
  /// How often walks may look at a value; at least three walks are taken for each of some budgets.
  std::int64_t looks = 0;
  std::function<void()> check{};  ///< before each walk and each plan of a chain; what it throws ends it
};

/// Orders of executions that are made, not searched for, each handed to `offer` with the number of the way
/// in which it was made and what that is called: walks that evict
/// (planning/evict.h) at the budget and at smaller ones; the same that keep what the cheapest selection of the bound
/// keeps (planning/lower_bound.h); and, where the graph is a chain of stretches, the best plans of that chain
/// (planning/chain_starts.h). Some need more than the budget, and some may
/// execute again what must not be.
void offer_starts(const Problem& problem, const FlatProblem& flat, const StartOptions& options,
                  const std::function<void(std::vector<int> order, int way, const std::string& how)>& offer);

}  // namespace sectionflow::planning
