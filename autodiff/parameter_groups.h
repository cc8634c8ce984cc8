#pragma once

#include <string>
#include <vector>

#include "autodiff/updates.h"

namespace sectionflow {

/// The variables of each group among `variables`, in their order; those of frozen groups too.
/// Throws: ArgumentError (SF-E032) beginning with `call`, as training_updates for groups.
std::vector<std::vector<Value>> members_of(const std::vector<ParameterGroup>& groups,
                                           const std::vector<Value>& variables, const std::string& call);

/// The optimiser of a group that is trained, with the group's weight decay where that is its own to apply.
Optimizer optimizer_of(const ParameterGroup& group);
/// What of a group's weight decay is added to its gradients, times the variables; 0: nothing.
float added_decay(const ParameterGroup& group);

}  // namespace sectionflow
