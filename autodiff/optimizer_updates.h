#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "autodiff/optimizers.h"
#include "graph/nodes/update.h"

namespace sectionflow {

/// Throws: as apply_gradients for the pairs, beginning with `call`.
void check_pairs(const std::vector<GradientAndVariable>& pairs, std::string_view call);
/// Throws: as apply_gradients for the optimiser's learning rate and numbers, beginning with `call`.
void check_optimizer(const Optimizer& optimizer, const Graph& graph, const std::string& call);

/// Throws: ArgumentError (SF-E036), beginning with `call`, for an optimiser that needs more of a variable than a shard.
void check_sharded(const Optimizer& optimizer, const std::string& call);
/// Pairs whose gradients, of that norm together, are no longer than max_norm, as clip_by_global_norm makes them.
std::vector<GradientAndVariable> clipped_to(const std::vector<GradientAndVariable>& pairs, Value norm, float max_norm);

/// A variable `<variable>/<slot>` that is not trained, in the group of the variable, whatever scope is open. Of a
/// shard (shard_variable) it is a shard, too, and `<variable>` what that is the shard of.
Value new_slot(Value variable, std::string_view slot, float content = 0);
/// The same of another type than the variable's.
Value new_slot(Value variable, std::string_view slot, const TensorType& type, float content = 0);
/// A counter i64 [] that begins with 0 and is not trained.
Value new_counter(Graph& graph, const std::string& name);

/// What applies checked pairs: an operation each, in the group of its variable, and those that advance the optimiser.
/// Slots and counters are the optimiser's own, also where a scope of shared variables is open.
std::vector<Operation> optimizer_updates(const Optimizer& optimizer, const std::vector<GradientAndVariable>& pairs,
                                         const UpdateConditions& conditions);

}  // namespace sectionflow
