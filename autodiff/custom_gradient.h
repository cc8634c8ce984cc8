#pragma once

#include <functional>
#include <vector>

#include "base/export.h"
#include "graph/graph.h"
#include "graph/ops/identities.h"

namespace SF_API sectionflow {

/// A gradient of one's own, as of straight-through estimators, reversed or clipped gradients.
/// y = forward(inputs), whose gradients are what `backward` makes of the gradient of y, and nothing of what the rules
/// of forward's operations say. As in a rounding that lets gradients pass as if it had not rounded:
///
///     const Value rounded = custom_gradient(
///         {x}, [](const std::vector<Value>& in) { return sign(in[0]); },
///         [](const BackwardRequest& r) { return std::vector{r.dy}; });
///
/// `backward` is called by gradients() and minimize(), each time that one of them comes by, for the inputs that they
/// want; what it computes has gradients of its own, by the usual rules. It outlives this call: what it captures by
/// reference must too. Nothing is copied or executed for y's sake. A reversal is
/// `custom_gradient({x}, [](const auto& in) { return stop_gradient(in[0]); }, [](const auto& r) { return
/// std::vector{-r.dy}; })`. Where `backward` calls gradients() itself, as to compute forward again, it takes those of
/// products with stop_gradient(r.dy): dy may depend on y, and so on this call.
/// Shapes: inputs of one graph, any; y any one f32 or bf16 value; gradients like the inputs. What else forward reads of
/// floats that were there before, and variables that it makes, would lose their gradients without a word: they are
/// refused. Give them as inputs, or stop_gradient() of them, and make variables before.
/// Throws: ArgumentError, also for no inputs and for a forward that gives one of the inputs itself.
Value custom_gradient(const std::vector<Value>& inputs,
                      const std::function<Value(const std::vector<Value>& inputs)>& forward, BackwardFunction backward,
                      Where where = Where::here());

}  // namespace sectionflow
