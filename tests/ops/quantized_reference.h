#pragma once

#include <algorithm>
#include <cmath>
#include <utility>

#include "graph/nodes/quantize.h"
#include "graph/ops/quantize.h"
#include "tests/support/op_case.h"

namespace sectionflow::testing_support {

/// An input of all integers of i8 or u8.
inline CaseInput integers(Dtype dtype, Shape shape) {
  return {.type = {dtype, std::move(shape)},
          .low = static_cast<double>(lowest_of(dtype)),
          .high = static_cast<double>(highest_of(dtype))};
}

/// What a quantised operation makes of a number, in words of the standard library.
inline double requantized(float x, const QuantizedResult& result) {
  const double wide = result.relu ? std::max(0.0, static_cast<double>(x)) : static_cast<double>(x);
  if (result.dtype == Dtype::f32) return wide;
  return std::clamp(std::nearbyint(wide), static_cast<double>(lowest_of(result.dtype)),
                    static_cast<double>(highest_of(result.dtype)));
}

}  // namespace sectionflow::testing_support
