#pragma once

#include <cstdint>
#include <vector>

#include "base/export.h"
#include "graph/graph.h"

namespace SF_API sectionflow {

/// Which part of a tensor slice takes.
struct SliceOptions {
  std::vector<std::int64_t> begin{};  ///< one an axis: the first element taken
  std::vector<std::int64_t> size{};   ///< one an axis: the number of elements; -1: all from there to the end
};

/// The part of x from `begin` on. Shapes: x any; result `size`, where a -1 gives x's dimension less `begin`, or an
/// unknown one if x's is. Any dtype. Throws: ShapeError for a part that leaves x.
Value slice(Value x, SliceOptions options, Where where = Where::here());
/// dx of slice: dy in its place, zeros elsewhere. Reads only the shape of x.
Value slice_grad(Value dy, Value x, const SliceOptions& options);

}  // namespace sectionflow
