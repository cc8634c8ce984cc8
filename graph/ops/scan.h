#pragma once

#include "base/export.h"
#include "graph/graph.h"

namespace SF_API sectionflow {

/// Which elements a sum of cumsum is of.
struct CumsumOptions {
  bool exclusive = false;  ///< of those before its place alone: the first sum is 0
  bool reverse = false;    ///< of those from its place to the end, which are added from the last to the first
};

/// The sums of the elements of x along `axis` up to each place, in f32, one element after the other; bf16 is rounded
/// once a place. On a GPU, sums along long axes go by stretches of 256 places, which are added up in their order.
/// Negative axes count from the end; a sum of whole numbers that is out of range wraps around.
/// Shapes: x any, with one axis at least; result like x. f32, bf16, i32 or i64. Throws: ArgumentError for another
/// dtype, ShapeError for an axis that x has not.
Value cumsum(Value x, int axis, CumsumOptions options = {}, Where where = Where::here());

}  // namespace sectionflow
