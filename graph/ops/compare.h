#pragma once

#include "base/export.h"
#include "graph/graph.h"

namespace SF_API sectionflow {

// Comparisons, element by element, with broadcasting as that of add. Shapes: a, b any two that broadcast, of one dtype;
// result their broadcast, boolean. NaN is unequal to everything and neither less nor greater; false is less than true.
// No gradient. Throws: ShapeError, ArgumentError for unequal dtypes.
/// a = b.
Value equal(Value a, Value b, Where where = Where::here());
/// Not a = b: true where either is NaN.
Value not_equal(Value a, Value b, Where where = Where::here());
/// a < b.
Value less(Value a, Value b, Where where = Where::here());
/// a <= b.
Value less_equal(Value a, Value b, Where where = Where::here());
/// a > b.
Value greater(Value a, Value b, Where where = Where::here());
/// a >= b.
Value greater_equal(Value a, Value b, Where where = Where::here());

}  // namespace sectionflow
