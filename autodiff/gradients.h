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

/// d loss / d variable for each variable, by adding nodes to the graph. Contributions to one value are summed from
/// the last of the nodes that read it to the first, whatever is executed when. Each new node takes the group of the
/// node that it differentiates; a sum of gradients that of the reader whose part it adds.
/// Gradients are values like others: a loss may depend on them, and be differentiated again.
/// Shapes: loss [] f32; each gradient like its variable. `variables` may be any f32 values.
/// Throws: ShapeError when the loss is no scalar; ArgumentError naming a variable that belongs to another graph, one
/// that the loss does not reach, with the operation that stopped the gradient (SF-E030), or an operation on the way to
/// the loss that has no gradient, with the path and what to do (SF-E031), or one on that way whose input was put in
/// later than it was made (Graph::replace_input).
std::vector<Value> gradients(Value loss, const std::vector<Value>& variables);

}  // namespace sectionflow
