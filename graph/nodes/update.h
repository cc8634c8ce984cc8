#pragma once

#include <any>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string_view>
#include <vector>

#include "base/export.h"
#include "graph/ops/update.h"

namespace SF_API sectionflow {

/// When an update happens.
struct UpdateConditions {
  /// A boolean [] that is known on the host: where it is false the update is no part of the program. Invalid: always.
  Value condition{};
  /// A boolean [] that the run computes: where it is false the update is executed and leaves all variables as they are.
  /// Invalid: always.
  Value gate{};
};

/// An update of op "assign_add", "average_weights" or "apply_...": what the function of that name makes, under
/// conditions, which become its last inputs.
Operation conditional_update(std::string_view op, std::vector<Value> inputs, std::any options,
                             const UpdateConditions& conditions);

/// gradient where micro_batch is 0, accumulator + gradient elsewhere.
/// Shapes: accumulator a variable, gradient and result alike, f32; micro_batch [] i64.
Value accumulated(Value accumulator, Value gradient, Value micro_batch);

// What ranks that train together have in common. Each of these ops communicates (OpDef::communicates).

/// More ranks than these are a mistake.
inline constexpr std::int64_t kMostRanks = 1 << 20;

/// How many ranks the graph's updates are of: what kRanks says; 1 where it says nothing. Throws: ArgumentError
/// (SF-E036) where a graph from a file has a collection that says no number of 1 to kMostRanks, or several.
int ranks_of(const Graph& graph);

/// Options of the ops of ranks: how many there are.
struct RanksOptions {
  std::int64_t ranks = 1;
};

/// The sum of x over all ranks, in rank order: (x of rank 0 + x of rank 1) + ...
/// Shapes: x and result alike, f32.
Value all_reduced(Value x, int ranks);
/// Of each x, in one exchange.
std::vector<Value> all_reduced(std::vector<Value> xs, int ranks);
/// The same behind what has been summed before: ((accumulator + x of rank 0) + x of rank 1) + ..., or, where
/// micro_batch is 0, as above. Shapes: accumulators variables, one like each x and result, f32; micro_batch [] i64.
std::vector<Value> all_reduced(std::vector<Value> accumulators, const std::vector<Value>& xs, Value micro_batch,
                               int ranks);
/// y[r] = x of rank r. Shapes: x [...] of any dtype, y [ranks, ...].
Value all_gathered(Value x, int ranks);
/// x as the last rank has it. Shapes: x and result alike, any dtype.
Value of_last_rank(Value x, int ranks);

/// What ranks get in common by an operation.
enum class Exchange {
  sum,            ///< of what each has; or what one has
  shards_of_sum,  ///< the same, of which each gets its shard
  gather          ///< what each has, in rank order
};
/// Of a node that communicates.
Exchange exchange_of(const Node& node);

/// The update of a moving average that takes what all ranks have for it, one rank after the other; in the group and
/// branch of `update`, which it is meant to replace, and behind what that follows by control and order edges. What
/// `update` comes before by order edges comes behind the new one, too; what follows it by control edges still brings
/// `update` itself along. Invalid where that updates no moving average, or is such an update already.
Operation moving_average_of_ranks(Operation update, int ranks);
/// Whether a node is an update of a moving average by what all of so many ranks have for it.
bool is_moving_average_of_ranks(const Node& node, int ranks);

/// Tells values that may differ from rank to rank from those that are the same on all: what is fed or drawn, and what
/// is computed of it, from variables, constants, what ranks have in common, and what is computed of that. Booleans []
/// that are fed are the same: they choose kernels, so that they are compared with the program.
class RankDifferences {
 public:
  /// `reads(node)`: the values that a node reads.
  explicit RankDifferences(std::function<std::vector<Value>(const Node&)> reads) : reads_(std::move(reads)) {}

  bool differs(const Node& node);

 private:
  struct Visit;
  Visit visit_of(const Node& node) const;

  std::function<std::vector<Value>(const Node&)> reads_;
  std::map<const Node*, bool> known_;
};

}  // namespace sectionflow
