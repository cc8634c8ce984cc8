#pragma once

#include "base/export.h"
#include "graph/graph.h"

namespace SF_API sectionflow {

/// The same elements in the same order under another shape; one dimension may be -1, to be worked out.
/// Shapes: x any, result `shape`. Any dtype. Throws: ShapeError when the numbers of elements differ.
Value reshape(Value x, Shape shape, Where where = Where::here());
/// Each row as one run: x [N, ...] as [N, rest], where the feed may decide any dimension. Any dtype.
/// Throws: ShapeError for a scalar.
Value flatten(Value x, Where where = Where::here());
/// x under the shape of `like`, of which nothing else is read: the gradient of reshape and flatten.
Value reshape_like(Value x, Value like);

/// Options of the op "reshape".
struct ReshapeOptions {
  Shape shape;
};

}  // namespace sectionflow
