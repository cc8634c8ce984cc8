#pragma once

#include "graph/graph.h"

namespace sectionflow {

/// Whether a and b are equal, element by element. Shapes: a, b alike, of one dtype; result like a, boolean. No
/// gradient.
Value equal(Value a, Value b, Where where = Where::here());

}  // namespace sectionflow
