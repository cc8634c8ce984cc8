#pragma once

#include <string>
#include <vector>

#include "base/export.h"
#include "graph/ops/reduce.h"

namespace SF_API sectionflow {

/// What becomes of the elements that are reduced to one.
enum class Reduction { sum, mean, max, min };

/// Whether the result is one of the elements.
constexpr bool is_choice(Reduction reduction) {
  return reduction == Reduction::max || reduction == Reduction::min;
}

/// The options of the ops "reduce" and "reduce_grad".
struct ReduceNodeOptions {
  Reduction reduction = Reduction::sum;
  ReduceOptions reduce;
};

/// dx of a sum or mean: dy repeated over the reduced axes of x, divided by their count for the mean.
/// Reads only the shape of `x`.
Value reduce_grad(Value dy, Value x, const ReduceNodeOptions& options);
/// dx of a maximum or minimum: dy at the elements of `x` that equal `y`, shared evenly among them; 0 elsewhere.
Value reduce_max_grad(Value dy, Value x, Value y, const ReduceNodeOptions& options);

/// x seen as [outer, reduced, inner] for every reduction: which axes are reduced, in order, without repeats.
std::vector<bool> reduced_axes(const ReduceOptions& options, int rank, const std::string& label);
/// dy / norm, by which each x is multiplied to give its gradient; 0 where the norm is 0. Shapes: all [].
Value global_norm_grad(Value dy, Value norm);
/// Throws: ArgumentError beginning with `label` unless max_norm is positive and finite.
void check_max_norm(float max_norm, const std::string& label);

/// Options of the op "clip_scale".
struct ClipScaleOptions {
  float max_norm = 1;
};

}  // namespace sectionflow
