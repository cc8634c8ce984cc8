#pragma once

#include "base/export.h"
#include "graph/ops/fake_quantize.h"

namespace SF_API sectionflow {

/// dy where x is within the range, 0 where it is cut off: the gradient of x. Shapes: dy like x, the rest as of
/// fake_quantize; result like x.
Value fake_quantize_grad(Value dy, Value x, Value minimum, Value maximum);

/// What each element adds to the gradient of the larger end, by magnitude, of the range: dy (q - x / scale) / highest
/// where x is within the range, else dy q / highest, with q the integer of x and highest 255 or 127. Shapes and dtypes
/// as above; result f32 [..., C].
Value fake_quantize_range_grad(Value dy, Value x, Value minimum, Value maximum);

}  // namespace sectionflow
