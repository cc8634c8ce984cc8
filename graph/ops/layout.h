#pragma once

#include <vector>

#include "base/export.h"
#include "graph/graph.h"

namespace SF_API sectionflow {

/// The same elements in the same order under another shape; one dimension may be -1, to be worked out.
/// Shapes: x any, result `shape`. Any dtype. Throws: ShapeError when the numbers of elements differ.
Value reshape(Value x, Shape shape, Where where = Where::here());
/// Each row as one run: x [N, ...] as [N, rest], where the feed may decide any dimension. Any dtype.
/// Throws: ShapeError for a scalar.
Value flatten(Value x, Where where = Where::here());

/// y with the axes of x in another order: axis i of y is axis permutation[i] of x, as in NHWC -> NCHW by {0, 3, 1, 2}.
/// Negative axes count from the end. Shapes: x any; y[i] = x[permutation[i]]; dimensions may be unknown. Any dtype.
/// Throws: ShapeError unless every axis of x is named once.
Value transpose(Value x, std::vector<int> permutation, Where where = Where::here());

/// x repeated to `shape`: aligned at the last dimension, a dimension of 1 or one that x does not have is repeated.
/// A -1 in `shape` is x's own dimension, and the only thing that an unknown one fits.
/// Shapes: x that broadcasts to `shape`; result `shape`. Any dtype; the gradient f32 or bf16. Throws: ShapeError.
Value broadcast_to(Value x, Shape shape, Where where = Where::here());

}  // namespace sectionflow
