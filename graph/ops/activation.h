#pragma once

#include "graph/graph.h"

namespace sectionflow {

/// y = max(x, 0); NaN stays NaN. Shapes: any; y like x. f32.
Value relu(Value x, Where where = Where::here());
/// dx = y > 0 ? dy : 0. Shapes: dy, y and result alike. f32.
Value relu_grad(Value dy, Value y);

}  // namespace sectionflow
