#pragma once

#include <cstdint>

#include "base/export.h"
#include "base/host_tensor.h"
#include "graph/graph.h"

namespace SF_API sectionflow {

/// Where the trained variables of ranks that train together, and the slots of their optimisers, are held. All give the
/// same bits.
enum class VariableDistribution {
  replicated,  ///< every rank holds all of each, and updates it
  sharded,     ///< every rank holds its shard of each, 1 / ranks of the elements, and gathers the whole to read it
  parameter_server,  ///< one rank, the server, holds and updates each; the others are sent it to read it
  /// Every rank holds a copy of each to read. A master copy, in shards of all ranks or at a server, is updated, and has
  /// the slots; the copies are refreshed from it behind the update.
  distributed_replicated
};

/// How many elements of a variable of so many a rank holds in shards, the first ranks of the first: the last ranks hold
/// fewer, or none, and have as much room. Large shards end where the blocks end in which norms are summed.
std::int64_t shard_elements(std::int64_t elements, std::int64_t ranks);

/// The type that a variable has for whoever reads, writes, saves or loads it: that of all of it, where ranks hold its
/// shards. Throws: ArgumentError for a value that is no variable.
TensorType whole_type(Value variable);

}  // namespace sectionflow
