#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "base/export.h"
#include "graph/graph.h"
#include "schedule/schedule.h"
#include "schedule/signature.h"

namespace sectionflow {

/// An accumulation of gradients over the micro-batches of an update, as the graph has it in kMicroBatches.
struct MicroBatches {
  Value index;             ///< i64 [] variable: how many of the update's micro-batches have been taken
  Value applies;           ///< boolean [] placeholder: whether this micro-batch is the last
  std::int64_t count = 1;  ///< micro-batches of an update
};

/// All accumulations of the graph. Throws: ArgumentError (SF-E033) where a graph from a file has a collection that says
/// none.
std::vector<MicroBatches> micro_batches_of(const Graph& graph);

/// The signature of a micro-batch: what is fed, and for each accumulation whether it is the last.
/// Throws: ArgumentError (SF-E033) where that is fed.
Signature with_micro_batches(Signature fed, const std::vector<MicroBatches>& accumulations,
                             const std::function<bool(const MicroBatches&)>& is_last);

/// The variable that counts the micro-batches which the schedule takes; nothing where it takes none.
std::optional<NodeId> micro_batch_counter(const Schedule& schedule, const Graph& graph);

}  // namespace sectionflow
