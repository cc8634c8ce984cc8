#pragma once

#include "base/host_device.h"
#include "graph/nodes/quantize.h"
#include "kernels/formulas/quantize.h"
#include "kernels/vector_math.h"

/// Numbers rounded to those that integers of 8 bits stand for, and the gradients of that; shared by every device.
namespace sectionflow::formulas {

/// The integers that stand for numbers from `minimum` to `maximum`, and the scale between two of them: u8 where nothing
/// is below 0, else i8, as quantize_nodes takes them.
struct RangeGrid {
  IntegerRange range;
  float scale;

  SF_HOST_DEVICE RangeGrid(float minimum, float maximum) : range{-128.0F, 127.0F}, scale(1.0F) {
    const bool is_unsigned = minimum >= 0.0F;
    range.lowest = vector_math::select(is_unsigned, 0.0F, -128.0F);
    range.highest = vector_math::select(is_unsigned, 255.0F, 127.0F);
    const float low = vector_math::magnitude(minimum), high = vector_math::magnitude(maximum);
    const float most = vector_math::select(low > high, low, high);
    const float step = most / range.highest;
    scale = vector_math::select(most > 0.0F, vector_math::select(step > kLeastScale, step, kLeastScale), 1.0F);
  }
  /// Whether x / scale rounds to an integer that is there: it is not cut off.
  SF_HOST_DEVICE bool holds(float ratio) const { return ratio >= range.lowest - 0.5F && ratio <= range.highest + 0.5F; }
  SF_HOST_DEVICE float nearest(float ratio) const { return static_cast<float>(range.nearest(ratio)); }
};

/// NaN stays NaN, so that it shows.
struct FakeQuantize {
  SF_HOST_DEVICE float operator()(float x, float minimum, float maximum) const {
    const RangeGrid grid(minimum, maximum);
    return vector_math::select(x == x, grid.nearest(x / grid.scale) * grid.scale, x);
  }
};
/// dy straight through, and 0 where x is cut off.
struct FakeQuantizeGrad {
  SF_HOST_DEVICE float operator()(float dy, float x, float minimum, float maximum) const {
    const RangeGrid grid(minimum, maximum);
    return vector_math::select(grid.holds(x / grid.scale), dy, 0.0F);
  }
};
/// What an element adds to the gradient of the range's larger end by magnitude, which `highest` scales are.
struct FakeQuantizeRangeGrad {
  SF_HOST_DEVICE float operator()(float dy, float x, float minimum, float maximum) const {
    const RangeGrid grid(minimum, maximum);
    const float ratio = x / grid.scale;
    const float error = grid.nearest(ratio) - vector_math::select(grid.holds(ratio), ratio, 0.0F);
    return dy * (error / grid.range.highest);
  }
};

}  // namespace sectionflow::formulas
