#pragma once

#include <string>
#include <vector>

#include "base/export.h"
#include "graph/graph.h"

namespace SF_API sectionflow {

/// sqrt(sum of squares over all elements of all xs), summed in double in a fixed order: each x in an order that its
/// shape decides, then the xs in theirs. Infinite or NaN where an element is.
/// Shapes: xs any, at least one; result []. f32. Throws: ArgumentError for no xs and for other dtypes.
Value global_norm(std::vector<Value> xs, Where where = Where::here());
/// dy / norm, by which each x is multiplied to give its gradient; 0 where the norm is 0. Shapes: all [].
Value global_norm_grad(Value dy, Value norm);

/// max_norm / max(norm, max_norm): 1 for a norm up to max_norm; NaN for one that is infinite or NaN, so that what is
/// scaled by it shows the error. Shapes: norm and result [] f32. Throws: ArgumentError, ShapeError.
Value clip_scale(Value norm, float max_norm, Where where = Where::here());
/// Throws: ArgumentError beginning with `label` unless max_norm is positive and finite.
void check_max_norm(float max_norm, const std::string& label);

/// Options of the op "clip_scale".
struct ClipScaleOptions {
  float max_norm = 1;
};

}  // namespace sectionflow
