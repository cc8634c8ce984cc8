#pragma once

#include <string>

#include "autodiff/updates.h"
#include "graph/nodes/shards.h"

namespace sectionflow {

/// Who holds in shards what updates with these options train.
ShardHolders shard_holders(const UpdateOptions& options);

/// Throws: ArgumentError (SF-E036), beginning with `call`, for a distribution that is none, and for a server that is no
/// rank or that the distribution has no use for.
void check_distribution(const UpdateOptions& options, const std::string& call);
/// Throws: the same unless the updates that the graph has are of this distribution.
void check_same_distribution(const UpdateOptions& options, const Graph& graph, const std::string& call);

}  // namespace sectionflow
