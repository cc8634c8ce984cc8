#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "planning/problem.h"

namespace sectionflow::planning {

/// What a plan is held against.
struct Limits {
  std::int64_t budget = std::numeric_limits<std::int64_t>::max();  ///< bytes of device memory
  Link link{};
};

/// What a plan comes to. Where it has a fault, the figures are those of the steps before it.
struct Evaluation {
  bool ok = false;
  std::size_t fault_step = 0;  ///< of the first fault; the number of steps where what is wrong is how the plan ends
  std::string fault;           ///< one sentence; empty when ok
  std::int64_t peak = 0;       ///< most bytes of device memory at any step
  double cost = 0;             ///< seconds of all executions together
  double seconds = 0;          ///< until every lane is done
  double stall_seconds = 0;    ///< seconds - cost: what copies add
  std::int64_t bytes_out = 0;  ///< copied to host memory
  std::int64_t bytes_in = 0;   ///< copied back
};

/// Checks and prices a plan: nothing else in this folder adds up bytes or prices a copy for a user to see.
///
/// Memory. At `compute`: all that is resident, outputs that are not resident yet, and the workspace; but an output that
/// may be written over an input (Operation::overwrites) takes nothing where the plan drops the input before the next
/// execution or copy in, and no copy of it is in host memory. At `in`: all that is resident, and the value. Nothing
/// else takes memory.
///
/// Time. Three lanes: executions, copies out, copies in; each does its steps in the plan's order, one after the other.
/// A copy takes the link's latency and its bytes' time, and delays the lane of executions by its drag. A step begins
/// when its lane is free, when the values that it reads are there, and when it has its bytes: what is resident at its
/// place in the plan, its own bytes, and what earlier steps still hold (dropped values whose last reader or copy out is
/// not done, a workspace in use) fit the budget. A step may so begin before earlier ones of another lane, and more
/// budget or a faster link never makes a plan slower.
///
/// Faults: indices; a value read, dropped or copied out that is not resident, copied in that is resident or has no copy
/// in host memory, copied out twice or although it must not move; a copy without a link; an operation that comes before
/// one it must follow or after one that ends it, is executed again though not repeatable, or never; a value that the
/// end needs and does not find; the budget. Throws: ArgumentError of check_problem, or where the link's numbers are
/// negative or not finite.
Evaluation evaluate(const Problem& problem, const Plan& plan, const Limits& limits = {});

/// When a step is carried out, in seconds.
struct StepSpan {
  double begin = 0, end = 0;
};

/// Of each step of a plan, as evaluate times them. Both of a drop: when its bytes are given back. Throws: as evaluate,
/// and ArgumentError with the fault of a plan that has one.
std::vector<StepSpan> spans_of(const Problem& problem, const Plan& plan, const Limits& limits);

/// Every operation once, in the given order; a value is dropped as soon as nothing reads it any more.
Plan default_plan(const Problem& problem);

/// The peak of default_plan: what budgets in percent refer to.
std::int64_t default_peak(const Problem& problem);

/// The seconds of every operation once: what overheads in percent refer to.
double default_cost(const Problem& problem);

/// The seconds of executions in this order, each operation's first one and further ones.
double cost_of(const Problem& problem, std::span<const int> order);

/// Seconds of one copy of `bytes`, and those by which it delays executions.
double copy_seconds(const Link& link, std::int64_t bytes);
double drag_seconds(const Link& link, std::int64_t bytes);

/// What outputs may at most save by being written over inputs that `may_go`.
std::int64_t most_overwritten(const Problem& problem, const Operation& operation,
                              const std::function<bool(int value)>& may_go);

/// The bytes without which `operation` cannot be executed: inputs, outputs less what they may be written over,
/// workspace, and given values that can neither be dropped and copied back nor are done with, as the plan's end needs
/// them.
std::int64_t working_set(const Problem& problem, int operation, const Link& link = {});
/// Those given values, and the same with them at hand, for whoever asks for every operation.
std::vector<int> always_there(const Problem& problem, const Link& link);
std::int64_t working_set(const Problem& problem, int operation, std::span<const int> always_there);

}  // namespace sectionflow::planning
