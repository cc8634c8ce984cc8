#pragma once

#include <vector>

#include "base/export.h"
#include "graph/graph.h"

namespace SF_API sectionflow {

/// A gradient and the variable that it is to change.
struct GradientAndVariable {
  Value gradient;
  Value variable;
};

/// d loss / d variable for each variable, by adding nodes to the graph. Contributions to one value are summed in the
/// order of the nodes that read it, whatever is executed when. Each new node takes the group of the node that it
/// differentiates; a sum of gradients takes the group of the nodes that read the value, or, where they are of several
/// groups, that of the value's own node.
/// Shapes: loss [] f32; each gradient like its variable. `variables` may be any f32 values.
/// Throws: ShapeError when the loss is no scalar; ArgumentError naming a variable that the loss does not reach or that
/// belongs to another graph.
std::vector<Value> gradients(Value loss, const std::vector<Value>& variables);

}  // namespace sectionflow
