#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/export.h"
#include "graph/graph.h"

namespace SF_API sectionflow {

/// x itself, without a copy, as a constant to gradients(): none passes. A variable that reaches a loss through this
/// operation alone has no gradient there. Shapes: any; result like x. Any dtype.
Value stop_gradient(Value x, Where where = Where::here());

/// What a gradient of one's own is made of; see custom_gradient (autodiff/custom_gradient.h).
struct BackwardRequest {
  Value dy;                   ///< the gradient of y, like it
  std::vector<Value> inputs;  ///< what y was computed from
  Value y;                    ///< what was computed
  std::vector<bool> wanted;   ///< one an input: whether its gradient is asked for
};
/// Adds nodes that compute the gradients of the inputs: one value an input, like it. An invalid one is none where none
/// is wanted, and zero where one is.
using BackwardFunction = std::function<std::vector<Value>(const BackwardRequest&)>;

/// What print says of a tensor.
struct PrintOptions {
  std::string label{};  ///< in front of the values; empty: the name of x
  int first = 8;        ///< how many values are logged
};

/// y = x; logs the label, the type and the first values, once per cycle: a recomputation passes x through in silence.
/// Shapes: any dtype; y like x. The gradient passes.
Value print(Value x, PrintOptions options = {}, Where where = Where::here());

/// x, offloaded to the host: its bytes on the device are free once the copy and the other readers of x are done. Only
/// swap_in reads it. Shapes: any dtype; result like x. Throws: ArgumentError for a variable, which lives in the
/// session, and for what is offloaded already.
Value swap_out(Value x, std::string_view name = "swap_out", Where where = Where::here());

/// The offloaded value, on the device again. It may be copied back several times. The copy begins when the operations
/// that this one waits for are done; where it waits for nothing, just before its first reader.
/// Shapes: result like the input. Throws: ArgumentError for what is no result of swap_out.
Value swap_in(Value offloaded, std::string_view name = "swap_in", Where where = Where::here());

/// The swap nodes of a graph, in the order of their numbers.
std::vector<Operation> swap_nodes(const Graph& graph);

}  // namespace sectionflow
