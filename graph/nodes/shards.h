#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/export.h"
#include "graph/nodes/update.h"
#include "graph/variable_shards.h"

namespace SF_API sectionflow {

class OpRegistry;

/// Adds the ops of shards to the family `update`.
void define_shard_ops(OpRegistry& registry);

/// Elements of the blocks in which norms are summed: a block is summed by itself, and their sums from first to last.
inline constexpr std::int64_t kNormBlock = 16384;

/// Where the shards of variables begin and end.
struct ShardLayout {
  std::int64_t elements = 0;  ///< of the whole
  std::int64_t shard = 0;     ///< elements that each rank has room for
  bool ends_blocks = false;   ///< whether a shard is of whole blocks of kNormBlock elements

  ShardLayout(std::int64_t of_whole, std::int64_t ranks);
  /// Of these elements of a shard's place, how many are the variable's.
  std::int64_t elements_of(std::int64_t rank) const;
};

/// A variable `name` that holds the rank's shard of what begins as `initial_value`, in the group that is open;
/// untrained, and in no collection. Shapes: initial_value [...], result [shard_elements].
Value shard_of_value(std::string_view name, Value initial_value, int ranks);

/// Has ranks hold the variable in shards: from here on a session has no place for it but for the result, its shard
/// `<variable>/shard`, and whatever reads the variable reads what is gathered just before
/// (schedule/variable_gathers.h). Where it is so already, the shard that there is. Shapes: variable f32, result
/// [shard_elements]. Throws: ArgumentError (SF-E036) for one in shards of other ranks.
Value shard_variable(Value variable, int ranks);

/// The sum of x over all ranks, in rank order, of which each rank has its shard; see all_reduced. What of the shard is
/// beyond x is 0. Shapes: x any f32, result [shard_elements]. It communicates.
Value reduced_shard(Value x, int ranks);
/// The same behind what has been summed before, where micro_batch is not 0. Shapes: accumulator like the result.
Value reduced_shard(Value accumulator, Value x, Value micro_batch, int ranks);

/// global_norm of what ranks have in shards, with the same bits. Shapes: xs [shard_elements] f32 each, of so many
/// elements as a whole; result [] f32. It communicates: a number a block, or, of small ones, the elements.
Value norm_of_shards(std::vector<Value> xs, std::vector<std::int64_t> elements, int ranks);

/// Options of the op "norm_of_shards".
struct NormOfShardsOptions {
  std::int64_t ranks = 1;
  std::vector<std::int64_t> elements{};  ///< of each whole input
};

/// The ranks that hold shards of what a variable is a shard of; 0 for a variable that is none.
std::int64_t ranks_of_shard(Value variable);

/// Options of the op "gathered_variable", which no other op has.
struct GatheredVariableOptions {
  std::int64_t ranks = 1;
};
/// Whether a node gives what the variable that is input 1 holds, of which input 0 is this rank's shard. Writers of
/// instruction lists leave it out: it is executed before what reads the variable (schedule/variable_gathers.h).
bool gives_variable(const Node& node);

/// What gathers the variable; invalid where a session holds it whole. Throws: ArgumentError for what is no variable.
Value gathered_of(Value variable);
/// The shard that a session holds of the variable; invalid where it holds it whole.
Value shard_of(Value variable);
/// The variable that is held in this shard (shard_variable); invalid where it is none of a variable's own.
Value variable_of_shard(Value shard);
/// Has a node of op "gathered_variable" be what gathers its variable, until the graph is without it again.
void note_gathered(Node& gathered);

}  // namespace sectionflow
