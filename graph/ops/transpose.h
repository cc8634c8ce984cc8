#pragma once

#include <vector>

#include "base/export.h"
#include "graph/graph.h"

namespace SF_API sectionflow {

/// y with the axes of x in another order: axis i of y is axis permutation[i] of x, as in NHWC -> NCHW by {0, 3, 1, 2}.
/// Negative axes count from the end. Shapes: x any; y[i] = x[permutation[i]]; dimensions may be unknown. Any dtype.
/// Throws: ShapeError unless every axis of x is named once.
Value transpose(Value x, std::vector<int> permutation, Where where = Where::here());

/// Options of the op "transpose".
struct TransposeOptions {
  std::vector<int> permutation;
};

/// The permutation with its axes counted from the front. Throws: ShapeError (starting with `label`) unless each of
/// `rank` axes is named once.
std::vector<int> normalized_permutation(const std::vector<int>& permutation, int rank, const std::string& label);

}  // namespace sectionflow
