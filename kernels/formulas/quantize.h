#pragma once

#include <bit>
#include <cstdint>

#include "base/host_device.h"

namespace sectionflow::formulas {

/// Integers that numbers are rounded to: those from `lowest` to `highest`, both below 2^22 by magnitude.
struct IntegerRange {
  float lowest = -128, highest = 127;

  /// To the nearest, halves to the even one, then cut to the range; NaN gives the lowest. Comparisons and one sum of
  /// f32, which every machine rounds alike.
  SF_HOST_DEVICE std::int32_t nearest(float x) const {
    x = x > lowest ? x : lowest;
    x = x < highest ? x : highest;
    // Numbers from 2^23 to 2^24 have no fractions: the sum is rounded to an integer, which its low bits are.
    constexpr float kShift = 12582912.0F;  // 1.5 * 2^23
    return std::bit_cast<std::int32_t>(x + kShift) - std::bit_cast<std::int32_t>(kShift);
  }
};

/// The integer nearest to a mean of such integers, which lies among them.
SF_HOST_DEVICE inline std::int32_t nearest_mean(float mean) {
  return IntegerRange{-128, 255}.nearest(mean);
}

/// The integer of a number: that of x / scale, and `zero_point` more.
struct Quantize {
  IntegerRange range;  ///< of the integers, less the zero point
  std::int32_t zero_point = 0;
  SF_HOST_DEVICE std::int32_t operator()(float x, float scale) const { return range.nearest(x / scale) + zero_point; }
};
struct Dequantize {
  std::int32_t zero_point = 0;
  SF_HOST_DEVICE float operator()(std::int32_t q, float scale) const {
    return static_cast<float>(q - zero_point) * scale;
  }
};

/// What a quantised operation makes of a number that it computes.
struct Requantize {
  IntegerRange range;  ///< of the result; from 0 on where there is a relu
  bool relu = false;

  template <class Y>
  SF_HOST_DEVICE Y as(float x) const {
    if constexpr (sizeof(Y) == 1) {
      return static_cast<Y>(range.nearest(x));
    } else {
      const float positive = x > 0.0F ? x : 0.0F;
      return relu ? positive : x;
    }
  }
};

/// a * a_factor + b * b_factor: each product and the sum rounded by itself.
struct QuantizedAdd {
  float a_factor, b_factor;
  Requantize requantize;
  SF_HOST_DEVICE float sum(float a, float b) const { return a * a_factor + b * b_factor; }
};

}  // namespace sectionflow::formulas
