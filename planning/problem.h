#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sectionflow::planning {

/// An output that may be written over an input of the same size, where that is dropped right behind the execution:
/// both together then take the bytes of one.
struct Overwrite {
  int input = 0, output = 0;  ///< indices of `Problem::values`
  friend bool operator==(const Overwrite&, const Overwrite&) = default;
};

/// What a planner knows of one operation. Indices are of `Problem::values`.
struct Operation {
  std::string name;
  double seconds = 0;                     ///< of its first execution, at least 0
  std::int64_t workspace = 0;             ///< bytes that are taken while it runs, and at no other time
  std::vector<int> inputs;                ///< each value once
  std::vector<int> outputs;               ///< each value once; a value has one producer
  bool repeatable = true;                 ///< may be executed again: the same inputs give the same bits
  std::optional<double> seconds_again{};  ///< of each execution after the first; absent: `seconds`
  /// Of pairs with the same input, or the same output, the first that can be counts.
  std::vector<Overwrite> overwrites{};
  friend bool operator==(const Operation&, const Operation&) = default;
};

/// A tensor. It exists in one copy in device memory, from an execution of its producer (or from the start, where it has
/// none) until it is dropped; and perhaps in one copy in host memory, from when it was copied out on.
struct PlannedValue {
  std::string name;
  std::int64_t bytes = 0;      ///< at least 0
  int producer = -1;           ///< the operation that writes it; -1: it is given, in device memory at the start
  bool movable = true;         ///< may be copied to host memory and back
  bool needed_at_end = false;  ///< must be in device memory when the plan ends
  friend bool operator==(const PlannedValue&, const PlannedValue&) = default;
};

/// From device memory to host memory and back: a lane in each direction. No link: `bytes_per_second` 0.
struct Link {
  double bytes_per_second = 0;
  double latency = 0;  ///< seconds that each copy takes beside its bytes
  /// Seconds for each byte by which a copy delays the executions beside it: both want the memory's bandwidth.
  double drag = 0;
  friend bool operator==(const Link&, const Link&) = default;
};

/// A training graph, forward and backward together. Its operations stand in an order in which they can be executed.
struct Problem {
  std::vector<Operation> operations;
  std::vector<PlannedValue> values;
  std::vector<std::pair<int, int>> order;  ///< the first execution of `first` comes before that of `second`
  /// Every execution of `first` comes before that of `second`, which is not repeatable: it changes in place what
  /// `first` reads and no value tells of.
  std::vector<std::pair<int, int>> ends;
  friend bool operator==(const Problem&, const Problem&) = default;
};

/// What all sizes of a problem together may come to, so that every sum of them is exact in a double, as bounds add
/// them.
inline constexpr std::int64_t kMostProblemBytes = std::int64_t{1} << 53;

/// Throws: ArgumentError naming the operation or value: indices out of range or twice in a list, a producer that its
/// value does not name or that comes after a reader, `order` or `ends` against the order of operations, `ends` by a
/// repeatable operation, outputs written over what is no input or has another size, numbers that are negative or not
/// finite, times without a finite sum, sizes whose sum passes 2^53 bytes.
void check_problem(const Problem& problem);

/// Throws: ArgumentError for numbers that are negative or not finite.
void check_link(const Link& link);

/// Of each execution after the first.
inline double seconds_again(const Operation& operation) {
  return operation.seconds_again.value_or(operation.seconds);
}

/// For each value the operations that read it, each once, ascending.
std::vector<std::vector<int>> readers_of_values(const Problem& problem);

/// One step of a plan. `id` is an operation's index for `compute` and a value's for the others.
struct PlanStep {
  enum class Kind : std::uint8_t { compute, drop, out, in };
  Kind kind = Kind::compute;
  int id = 0;
  friend bool operator==(const PlanStep&, const PlanStep&) = default;
};

/// What is done, in order. Computing an operation again writes again those of its outputs that are not in device
/// memory. `drop` takes a value out of device memory; a plan says every drop itself. `out` copies a value to host
/// memory (it stays in device memory until it is dropped, and no drop of it is complete before the copy), `in` copies
/// it back.
struct Plan {
  std::vector<PlanStep> steps;
};

}  // namespace sectionflow::planning
