#pragma once

#include <cstdint>

#include "base/export.h"
#include "graph/graph.h"

namespace SF_API sectionflow {

/// The largest elements of each row, and where they stand in it.
struct TopK {
  Value values, indices;
};

/// The k largest elements along the last axis, from the largest on; of equal ones the first comes first, and a NaN
/// counts as larger than all numbers. The gradient of the values goes to the elements that were taken.
/// Shapes: x [..., C] f32 or bf16 with k <= C; values [..., k] of x's dtype, indices [..., k] i32.
/// Throws: ArgumentError for k < 1 and another dtype, ShapeError for a scalar and for rows that are too short.
TopK top_k(Value x, std::int64_t k, Where where = Where::here());

/// Elements of each row: y[..., j] = x[..., indices[..., j]]. An index outside [0, C) gives NaN, or 0 where x is not of
/// floats, and adds nothing to the gradient of x. Indices may repeat.
/// Shapes: x [..., C], indices [..., K] i32 or i64 with the same rows; result like the indices. Any dtype.
/// Throws: ShapeError, ArgumentError for other indices.
Value take_along(Value x, Value indices, Where where = Where::here());

}  // namespace sectionflow
