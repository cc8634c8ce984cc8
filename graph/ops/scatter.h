#pragma once

#include "base/export.h"
#include "graph/graph.h"

namespace SF_API sectionflow {

// Rows of x along its first axis, to which those of `updates` come by their index: indices may repeat and are in no
// order, and one outside [0, V) adds nothing. Shapes: x [V, ...], indices [...] i32 or i64; updates the indices' shape,
// then x's without V; result like x. f32 or bf16. Throws: ShapeError, ArgumentError for other dtypes.

/// x with updates[i, ...] added to row indices[i], one after the other in the order of the indices, in f32; bf16 is
/// rounded once.
Value scatter_add(Value x, Value indices, Value updates, Where where = Where::here());

/// x with the larger of each element and of all updates to it; NaN where one is. Elements that are equally large have
/// equal shares of the gradient.
Value scatter_max(Value x, Value indices, Value updates, Where where = Where::here());

}  // namespace sectionflow
