#pragma once

#include "base/export.h"
#include "graph/graph.h"

namespace SF_API sectionflow {

/// x repeated to `shape`: aligned at the last dimension, a dimension of 1 or one that x does not have is repeated.
/// A -1 in `shape` is x's own dimension, and the only thing that an unknown one fits.
/// Shapes: x that broadcasts to `shape`; result `shape`. Any dtype; the gradient f32 or bf16. Throws: ShapeError.
Value broadcast_to(Value x, Shape shape, Where where = Where::here());

/// x repeated to the shape of `like`, of which nothing else is read: the gradient of a sum over what was repeated.
/// Shapes: x that broadcasts to `like`; result like it. Any dtype. Throws: ShapeError.
Value broadcast_like(Value x, Value like);

/// Options of the op "broadcast_to".
struct BroadcastToOptions {
  Shape shape;
};

}  // namespace sectionflow
