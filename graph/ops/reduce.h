#pragma once

#include <vector>

#include "base/export.h"
#include "graph/graph.h"

namespace SF_API sectionflow {

/// What becomes of the elements that are reduced to one.
enum class Reduction { sum, mean, max };

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
/// The mean over all elements: a scalar.
inline Value mean(Value x, Where where = Where::here()) {
  return reduce_mean(x, {}, where);
}

/// The options of the ops "reduce" and "reduce_grad".
struct ReduceNodeOptions {
  Reduction reduction = Reduction::sum;
  ReduceOptions reduce;
};

/// dx of a sum or mean: dy repeated over the reduced axes of x, divided by their count for the mean.
/// Reads only the shape of `x`.
Value reduce_grad(Value dy, Value x, const ReduceNodeOptions& options);
/// dx of a maximum: dy at the elements of `x` that equal `y`, shared evenly among them; 0 elsewhere.
Value reduce_max_grad(Value dy, Value x, Value y, const ReduceNodeOptions& options);

/// x seen as [outer, reduced, inner] for every reduction: which axes are reduced, in order, without repeats.
std::vector<bool> reduced_axes(const ReduceOptions& options, int rank, const std::string& label);

}  // namespace sectionflow
