#pragma once

#include "base/export.h"
#include "graph/ops/bias_add.h"

namespace SF_API sectionflow {

/// db = sum of dy over all axes but that of the channels, in a fixed order. Shapes: dy [..., C] (nchw: [N, C, ...]),
/// result [C].
Value bias_add_grad(Value dy, BiasAddOptions options = {});

}  // namespace sectionflow
