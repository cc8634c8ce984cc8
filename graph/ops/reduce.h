#pragma once

#include <string>
#include <vector>

#include "base/export.h"
#include "graph/graph.h"

namespace SF_API sectionflow {

/// Along which axes, and what becomes of them.
struct ReduceOptions {
  std::vector<int> axes{};  ///< axes to reduce, negative ones count from the end; empty: all
  bool keep_dims = false;   ///< reduced axes stay, with size 1
};

/// Reduces `x` over axes, summing in a fixed order that does not depend on the thread count. f32 or bf16.
/// Shapes: x any, at least one element along the reduced axes; result x without (or with 1 for) the reduced axes.
/// Throws: ShapeError for axes outside the rank or named twice.
Value reduce_sum(Value x, ReduceOptions options = {}, Where where = Where::here());
/// The sum divided by the number of elements. Otherwise as reduce_sum.
Value reduce_mean(Value x, ReduceOptions options = {}, Where where = Where::here());
/// The largest element; NaN where there is one. Otherwise as reduce_sum.
Value reduce_max(Value x, ReduceOptions options = {}, Where where = Where::here());
/// The smallest element; NaN where there is one. Otherwise as reduce_sum.
Value reduce_min(Value x, ReduceOptions options = {}, Where where = Where::here());
/// The mean over all elements: a scalar.
inline Value mean(Value x, Where where = Where::here()) {
  return reduce_mean(x, {}, where);
}

/// sqrt(sum of squares over all elements of all xs), summed in double in a fixed order: each x in an order that its
/// shape decides, then the xs in theirs. Infinite or NaN where an element is.
/// Shapes: xs any, at least one; result []. f32. Throws: ArgumentError for no xs and for other dtypes.
Value global_norm(std::vector<Value> xs, Where where = Where::here());

/// max_norm / max(norm, max_norm): 1 for a norm up to max_norm; NaN for one that is infinite or NaN, so that what is
/// scaled by it shows the error. Shapes: norm and result [] f32. Throws: ArgumentError, ShapeError.
Value clip_scale(Value norm, float max_norm, Where where = Where::here());

}  // namespace sectionflow
