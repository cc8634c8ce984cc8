#pragma once

#include "base/export.h"
#include "graph/graph.h"

namespace SF_API sectionflow {

// Comparisons, element by element, with broadcasting as that of add. Shapes: a, b any two that broadcast, of one dtype;
// result their broadcast, boolean. NaN is unequal to everything and neither less nor greater; false is less than true.
// No gradient. Throws: ShapeError, ArgumentError for unequal dtypes.
Value equal(Value a, Value b, Where where = Where::here());
Value not_equal(Value a, Value b, Where where = Where::here());
Value less(Value a, Value b, Where where = Where::here());
Value less_equal(Value a, Value b, Where where = Where::here());
Value greater(Value a, Value b, Where where = Where::here());
Value greater_equal(Value a, Value b, Where where = Where::here());

}  // namespace sectionflow
