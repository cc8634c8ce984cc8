#pragma once

#include "base/export.h"
#include "graph/graph.h"

namespace SF_API sectionflow {

/// The index of the largest element along the last axis; the first of several; a NaN counts as largest.
/// Shapes: x [..., C] f32 with C >= 1; result [...] i32. No gradient. Throws: ShapeError for a scalar or C = 0.
Value argmax(Value x, Where where = Where::here());

}  // namespace sectionflow
