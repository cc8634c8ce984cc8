#pragma once

#include "base/export.h"
#include "graph/graph.h"

namespace SF_API sectionflow {

/// y = condition ? a : b, element by element, with broadcasting as that of add.
/// Shapes: condition (boolean), a and b (of one dtype, any) broadcast together; result their broadcast, of a's dtype.
/// The gradient goes to whichever was chosen. Throws: ShapeError, ArgumentError for other dtypes.
Value select(Value condition, Value a, Value b, Where where = Where::here());

}  // namespace sectionflow
