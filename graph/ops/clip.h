#pragma once

#include "base/export.h"
#include "graph/graph.h"

namespace SF_API sectionflow {

/// y = min(max(x, low), high), element by element; NaN stays NaN. The gradient passes where low <= x <= high.
/// Shapes: any; y like x. f32 or bf16. Throws: ArgumentError for another dtype, and unless low <= high.
Value clip(Value x, float low, float high, Where where = Where::here());

/// Options of the ops "clip" and "clip_grad".
struct ClipOptions {
  float low, high;
};

/// dx = low <= x <= high ? dy : 0. Shapes: dy, x and result alike. f32 or bf16.
Value clip_grad(Value dy, Value x, ClipOptions options);

}  // namespace sectionflow
