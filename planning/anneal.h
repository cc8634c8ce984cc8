#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "planning/sequence.h"

namespace sectionflow::planning {

struct AnnealOptions {
  std::int64_t budget = 0;
  bool order_fixed = false;
  std::int64_t moves = 0;
  double hot = 1, cold = 0.01;  ///< temperatures at the beginning and at the end, in seconds
  /// Of a byte over the budget, at first, in seconds of all operations for a budget's bytes: 1 lets orders pass it on
  /// their way, 100 hardly ever.
  double price = 1;
  std::uint64_t seed = 1;
  Link link{};                    ///< where the problem has copies
  std::function<void()> check{};  ///< every few hundred moves; what it throws ends the annealing
};

/// An order of executions, what it costs and the memory that it needs.
struct FoundOrder {
  std::vector<int> order;
  double cost = 0;  ///< seconds of executions; of an order with copies, until every lane is done
  std::int64_t peak = 0;
  std::vector<Absence> absences{};  ///< which the peak takes into account
};

/// Whether `a` is nearer to what is wanted than `b`: within the budget, then cheaper, then with less memory.
bool is_better(const FoundOrder& a, const FoundOrder& b, std::int64_t budget);

/// Simulated annealing over orders of executions, from `start` on. Moves execute an operation again before one of its
/// readers, with ancestors; take such an execution away, with those that it alone needed; shift an execution; and swap
/// one execution for another; copies, where the problem has them, are moved too (planning/moves.h), and timed with the
/// executions. What passes the budget costs by the byte, at a price that follows how often it happens.
/// Absences stay as they are. The best order that it met, `start` included. Source of the state: planning/sequence.h.
FoundOrder anneal(const FlatProblem& problem, const FoundOrder& start, const AnnealOptions& options);

}  // namespace sectionflow::planning
