#pragma once

#include "base/export.h"
#include "graph/graph.h"

namespace SF_API sectionflow {

/// x itself, without a copy, as a constant to gradients(): none passes. A variable that reaches a loss through this
/// operation alone has no gradient there. Shapes: any; result like x. Any dtype.
Value stop_gradient(Value x, Where where = Where::here());

}  // namespace sectionflow
