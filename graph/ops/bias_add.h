#pragma once

#include "graph/graph.h"

namespace sectionflow {

/// y = x + b along the last axis. Shapes: x [..., C], b [C], y like x. f32.
Value bias_add(Value x, Value b, Where where = Where::here());
/// db = sum of dy over all axes but the last, in a fixed order. Shapes: dy [..., C], result [C].
Value bias_add_grad(Value dy);

}  // namespace sectionflow
