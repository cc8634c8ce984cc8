#pragma once

#include <bit>
#include <cstdint>

#include "base/host_device.h"
#include "kernels/vector_math.h"

namespace sectionflow::formulas {

/// Numbers from 0 to 1 in kBits bits. The leading one of a code says the decade, what follows it the place within the
/// decade: with n for the leading one and s a power of ten, code n + j is s (0.1 + 0.9 (j + 1) / n), so that the
/// largest code is 1 and each decade ends where the next begins. 0 is 0. Source: Dettmers 2016, "8-bit approximations
/// for parallelism in deep learning", dynamic tree; his are the middles of the intervals whose ends these are, and have
/// 1 as an exception.
template <int kBits>
struct DynamicCode {
  static constexpr int kDecades = kBits;

  /// The code of the number nearest to x; of what is no number from 0 to 1, some code.
  SF_HOST_DEVICE static int encoded(float x) {
    constexpr Line kHighest = kLine<0>;
    Line line{kHighest.slope, kHighest.at_zero};
    descend<1>(x, line);
    const float code = x * line.slope + line.at_zero;
    const float positive = code > 0.0F ? code : 0.0F;  // 0 for NaN too
    return static_cast<int>(positive < kLargest ? positive : kLargest);
  }
  SF_HOST_DEVICE static float decoded(int code) {
    const auto number = static_cast<float>(code);
    // Its power of two is n, and so (j + 1) / n has all its digits.
    const std::uint32_t n = std::bit_cast<std::uint32_t>(number) & 0x7F800000U;
    const float place = ((number + 1.0F) - std::bit_cast<float>(n)) * std::bit_cast<float>(0x7F000000U - n);
    float scale = 1;
    descend_scale<1>(number, scale);
    return vector_math::select(number == 0.0F, 0.0F, scale * (0.1F + 0.9F * place));
  }

 private:
  static constexpr float kLargest = static_cast<float>((1 << kBits) - 1);

  /// n of the kDecade-th decade below the largest numbers, and the power of ten, as floats rounded at each step.
  template <int kDecade>
  static constexpr float kFirst = static_cast<float>(1 << (kBits - 1 - kDecade));
  static constexpr float scale_of(int decade) {
    float scale = 1;
    for (; decade > 0; --decade) scale /= 10.0F;
    return scale;
  }
  template <int kDecade>
  static constexpr float kScale = scale_of(kDecade);

  /// The codes of a decade's numbers, a half behind the point: n - 1/2 + n (x / s - 0.1) / 0.9.
  struct Line {
    float slope, at_zero;
  };
  template <int kDecade>
  static constexpr Line kLine{static_cast<float>(kFirst<kDecade> / 0.9 / static_cast<double>(kScale<kDecade>)),
                              static_cast<float>(kFirst<kDecade>*(8 / 9.0) - 0.5)};

  // By selects, each of which takes two instructions; branches would keep loops out of vectors.

  /// The line of the decade of x, from that of a larger one on.
  template <int kDecade>
  SF_HOST_DEVICE static void descend(float x, Line& line) {
    if constexpr (kDecade < kDecades) {
      constexpr float kEnd = kScale<kDecade>;
      constexpr Line kLower = kLine<kDecade>;
      const bool is_below = x <= kEnd;
      line.slope = vector_math::select(is_below, kLower.slope, line.slope);
      line.at_zero = vector_math::select(is_below, kLower.at_zero, line.at_zero);
      descend<kDecade + 1>(x, line);
    }
  }
  /// The power of ten of a code's decade likewise.
  template <int kDecade>
  SF_HOST_DEVICE static void descend_scale(float code, float& scale) {
    if constexpr (kDecade < kDecades) {
      constexpr float kAbove = kFirst<kDecade - 1>, kLower = kScale<kDecade>;
      scale = vector_math::select(code < kAbove, kLower, scale);
      descend_scale<kDecade + 1>(code, scale);
    }
  }
};

/// A slot of averages, x from -1 to 1: the highest bit is the sign.
struct SignedCode {
  using Magnitude = DynamicCode<7>;
  /// The code of x, from that of the magnitude of its quotient.
  SF_HOST_DEVICE static int finished(int code, float x) { return code + (x < 0.0F ? 128 : 0); }
  SF_HOST_DEVICE static float decoded(int code) {
    const auto magnitude = std::bit_cast<std::uint32_t>(Magnitude::decoded(code & 127));
    return std::bit_cast<float>(magnitude | (static_cast<std::uint32_t>(code & 128) << 24));
  }
};

/// A slot of roots, which have no sign. What is not 0 has no code of 0.
struct RootCode {
  using Magnitude = DynamicCode<8>;
  SF_HOST_DEVICE static int finished(int code, float x) {
    const int least = x > 0.0F ? 1 : 0;
    return code < least ? least : code;
  }
  SF_HOST_DEVICE static float decoded(int code) { return Magnitude::decoded(code); }
};

/// The code of x in a block with this divisor.
template <class Code>
SF_HOST_DEVICE int encoded(float x, float divisor) {
  return Code::finished(Code::Magnitude::encoded(vector_math::magnitude(x / divisor)), x);
}

/// What elements of a block with this scale are divided by. Where the scale is 0 so are they.
SF_HOST_DEVICE inline float divisor_of(float scale) {
  return scale == 0 ? 1.0F : scale;
}

/// A root whose square is no float as the largest of floats: an infinite scale would make NaN of its block's zeros.
SF_HOST_DEVICE inline float held_finite(float root) {
  constexpr float kMost = 3.402823466e+38F;
  return root > kMost ? kMost : root;
}

/// The larger magnitude; NaN where there is one. As whole numbers, the bits of magnitudes have their order, and those
/// of NaN are the largest.
struct LargerMagnitude {
  SF_HOST_DEVICE static std::int32_t bits(float x) { return std::bit_cast<std::int32_t>(x) & 0x7FFFFFFF; }
  SF_HOST_DEVICE float operator()(float largest, float x) const {
    const std::int32_t a = bits(largest), b = bits(x);
    return std::bit_cast<float>(a < b ? b : a);
  }
};

}  // namespace sectionflow::formulas
