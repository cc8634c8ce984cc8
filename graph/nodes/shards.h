#pragma once

#include <cstdint>
#include <string>
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

/// The ranks that hold something in shards: each its part; or, where there is a server, that rank all of it, so that
/// the shards of the others are of no elements. Options of the ops "assign_shard", "reduced_shard" and
/// "refreshed_copy".
struct ShardHolders {
  std::int64_t ranks = 1;
  bool has_server = false;
  std::int64_t server = 0;  ///< its rank, where there is one

  friend bool operator==(const ShardHolders&, const ShardHolders&) = default;
};
/// "2 ranks", "rank 0 of 2"
std::string text_of_holders(const ShardHolders& holders);

/// Where the shards of a value begin and end.
struct ShardLayout {
  ShardHolders holders;
  std::int64_t elements = 0;  ///< of the whole
  std::int64_t shard = 0;     ///< elements that each rank, or the server, has room for
  bool ends_blocks = false;   ///< whether a shard is of whole blocks of kNormBlock elements, and each rank has one

  ShardLayout(std::int64_t of_whole, const ShardHolders& of_holders);
  /// Elements that a rank has room for.
  std::int64_t size_on(std::int64_t rank) const;
  /// Of these, how many are the variable's.
  std::int64_t elements_of(std::int64_t rank) const;
  /// The first of its elements that a rank has.
  std::int64_t begin_of(std::int64_t rank) const { return holders.has_server ? 0 : rank * shard; }
};

/// The type of a shard's place, f32 [ShardLayout::shard]. Throws: ArgumentError, beginning with the label, for holders
/// that cannot be, and unless the whole is f32 of a known shape.
TensorType type_of_shard(const TensorType& whole, const ShardHolders& holders, const std::string& label);

// Types of shards are those of a rank that has one: in a graph, which is the same on all ranks, and in a program of the
// server. In those of other ranks a shard at a server is f32[0] (Signature::elsewhere).

/// A variable `name` that holds the rank's shard of what begins as `initial_value`, in the group that is open;
/// untrained, and in no collection. Shapes: initial_value [...], result [ShardLayout::shard].
Value shard_of_value(std::string_view name, Value initial_value, const ShardHolders& holders);

/// Has ranks hold the variable in shards: from here on a session has no place for it but for the result, its shard
/// `<variable>/shard`, and whatever reads the variable reads what is gathered just before
/// (schedule/variable_gathers.h). Where it is so already, the shard that there is. Shapes: variable f32, result
/// [ShardLayout::shard]. Throws: ArgumentError (SF-E036) for one in shards of other ranks.
Value shard_variable(Value variable, const ShardHolders& holders);

/// A master copy of the variable in shards, `<variable>/master`, from the same initial value. The variable's own place
/// is a copy, which refresh_copy keeps. Where there is one already, that. Shapes and errors: as shard_variable.
Value master_of_copies(Value variable, const ShardHolders& holders);
/// Sets the variable to what its master copy is behind all updates of that which the graph has so far, under a
/// condition (invalid: always). It communicates. From here on master_of gives that copy.
Operation refresh_copy(Value variable, Value master, Value condition);

/// The sum of x over all ranks, in rank order, of which each rank has its shard; see all_reduced. What of the shard is
/// beyond x is 0. Shapes: x any f32, result [ShardLayout::shard], that of `like`, a shard of as many elements with
/// the same holders. It communicates.
Value reduced_shard(Value like, Value x);
/// The same behind what has been summed before, where micro_batch is not 0. Shapes: accumulator like the result.
Value reduced_shard(Value accumulator, Value x, Value micro_batch);

/// global_norm of what ranks have in shards, with the same bits. Shapes: xs [ShardLayout::shard] f32 each, of so many
/// elements as a whole; result [] f32. It communicates: a number a block, or, of small ones, the elements; of what is
/// at a server the norm.
Value norm_of_shards(std::vector<Value> xs, std::vector<std::int64_t> elements, const ShardHolders& holders);

/// Options of the op "norm_of_shards".
struct NormOfShardsOptions : ShardHolders {
  std::vector<std::int64_t> elements{};  ///< of each whole input
};

/// The ranks that hold shards of what a variable is a shard of; 0 for a variable that is none.
std::int64_t ranks_of_shard(Value variable);
/// The same ranks, and the server; of no ranks for a variable that is no shard.
ShardHolders holders_of_shard(Value variable);
/// Whether another rank has all of a variable, which is a shard, so that this rank has nothing of it.
bool is_held_elsewhere(Value variable, std::int64_t rank);

/// Options of the op "gathered_variable", which no other op has.
struct GatheredVariableOptions : ShardHolders {};
/// Who holds what an operation of shards works on; nullptr for any other.
const ShardHolders* holders_of(const Node& node);
/// Whether a node gives what the variable that is input 1 holds, of which input 0 is this rank's shard. Writers of
/// instruction lists leave it out: it is executed before what reads the variable (schedule/variable_gathers.h).
bool gives_variable(const Node& node);

/// What gathers the variable; invalid where a session holds it whole. Throws: ArgumentError for what is no variable.
Value gathered_of(Value variable);
/// The shard that a session holds of the variable; invalid where it holds it whole.
Value shard_of(Value variable);
/// What a session has a place for: the shard where it holds one, else the variable.
Value place_of(Value variable);
/// The shard of its master copy from which the variable is refreshed; invalid where there is none.
Value master_of(Value variable);
/// What the updates of a trained variable update: its shard, its master copy's, or, where it has neither, itself.
Value updated_for(Value variable);
/// The variable that is held in this shard (shard_variable), or of which it is the master copy (refresh_copy); invalid
/// where it is none of a variable's own.
Value variable_of_shard(Value shard);
/// Whether a node refreshes the variable that is input 0 from its master copy, of which input 1 is the shard.
bool refreshes_copy(const Node& node);
/// Has a node that gathers a variable, or refreshes it, be what does so, until the graph is without it again.
void note_gathered(Node& gathered);

}  // namespace sectionflow
