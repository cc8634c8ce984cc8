#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "planning/sequence.h"

namespace sectionflow::planning {

/// Which values are in host memory alone, and when, and what is left in device memory at most.
struct Offloads {
  std::vector<Absence> absences;
  std::int64_t peak = 0;
};

/// Copies values out, one after the other while it helps, to bring an order's memory to `target` bytes or as near as
/// copies do that nothing waits for: a copy out begins when its value is written, copies in are done just before they
/// are read, each lane one copy at a time beside the executions. What is idle for longest goes first.
/// With `may_wait` copies have all the time that they need, and executions wait for them.
Offloads choose_offloads(const FlatProblem& problem, std::span<const int> order, std::int64_t target, const Link& link,
                         bool may_wait = false);

/// The plan of an order of executions: each copy is dropped after its last reader, and during absences. A value is
/// copied out where it is written first, and copied in at its absence's end.
Plan plan_of(const FlatProblem& problem, std::span<const int> order, std::span<const Absence> absences = {});

/// The plan of an order of executions and copies (FlatProblem): each step, and behind it drops of what is not read any
/// more before it is written again.
Plan plan_with_copies(const FlatProblem& problem, std::span<const int> order);

/// The order of a plan's executions and copies. REQUIRES: the problem has copies.
std::vector<int> order_with_copies(const FlatProblem& problem, const Plan& plan);

}  // namespace sectionflow::planning
