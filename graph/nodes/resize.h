#pragma once

#include "base/export.h"
#include "graph/ops/resize.h"

namespace SF_API sectionflow {

/// dx: each pixel gathers from the pixels of dy that it had a part in, in their order. Reads only the shape of x.
Value resize2d_grad(Value dy, Value x, const Resize2dOptions& options);

}  // namespace sectionflow
