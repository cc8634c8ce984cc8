#pragma once

#include <optional>
#include <set>
#include <string>

#include "autodiff/gradient_registry.h"
#include "graph/graph.h"

namespace sectionflow {

/// Whether a change of input `index`, if it is a change of a source, is one that gradients count: floats are read, and
/// the derivative is not zero by nature. True for an op that the registry does not know.
bool carries_gradient(const GradientRegistry& registry, const Node& node, std::size_t index);

/// "w -> layer/relu -> ... -> loss": a shortest way of the data from one of `sources` through `node` to `loss`, a few
/// names of it. `node` is told between its neighbours.
std::string path_text(const std::set<Value>& sources, const Node& node, Value loss);

/// The operation nearest to `variable` that lies on a way of the data to `loss` and stops the gradient there; nullptr
/// where no data of the variable reaches the loss.
const Node* stopping_node(const GradientRegistry& registry, Value variable, Value loss);

}  // namespace sectionflow
