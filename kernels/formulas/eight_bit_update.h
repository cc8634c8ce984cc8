#pragma once

#include <bit>
#include <cstdint>

#include "base/host_device.h"

namespace sectionflow::formulas {

/// Numbers from 0 to 1 in kBits bits. The leading one of a code says the decade, what follows it the place within the
/// decade: with n for the leading one and s a power of ten, code n + j is s (0.1 + 0.9 (j + 1) / n), so that the
/// largest code is 1 and each decade ends where the next begins. 0 is 0. Source: Dettmers 2016, "8-bit approximations
/// for parallelism in deep learning", dynamic tree; his are the middles of the intervals whose ends these are, and have
/// 1 as an exception.
template <int kBits>
struct DynamicCode {
  static constexpr int kDecades = kBits;
  static constexpr int kHighest = 1 << (kBits - 1);  // n of the largest numbers

  /// A step to the code of x, from n = kHighest on: to the decade below, if x lies there. By whole numbers, since
  /// compilers make branches of what chooses between factors, and loops of branches do not become vectors.
  SF_HOST_DEVICE static void descend(float& x, int& n) {
    const int is_below = static_cast<int>(x <= 0.1F);
    x *= static_cast<float>(1 + 9 * is_below);
    n >>= is_below;
  }
  /// The code, after as many steps as there are decades below the highest.
  SF_HOST_DEVICE static int code_at(float x, int n) {
    const float first = static_cast<float>(n);
    const float code = first - 0.5F + (x - 0.1F) * (first * kCodesOfADecade);
    const float positive = code >= 0.0F ? code : 0.0F;  // 0 for NaN too
    return static_cast<int>(positive < kLargest ? positive : kLargest);
  }
  /// The code of the number nearest to x; of what is no number from 0 to 1, some code.
  SF_HOST_DEVICE static int encoded(float x) {
    int n = kHighest;
    for (int decade = 1; decade < kDecades; ++decade) descend(x, n);
    return code_at(x, n);
  }
  SF_HOST_DEVICE static float decoded(int code) {
    int n = kHighest;
    float scale = 1;
    for (int decade = 1; decade < kDecades; ++decade) {
      const bool is_below = code < n;
      scale = is_below ? scale / 10.0F : scale;
      n = is_below ? n / 2 : n;
    }
    return code == 0 ? 0.0F : scale * (0.1F + 0.9F * static_cast<float>(code - n + 1) / static_cast<float>(n));
  }

 private:
  static constexpr float kCodesOfADecade = 1 / 0.9F;  // times n, a power of two, it is n / 0.9 to the last bit
  static constexpr float kLargest = static_cast<float>((1 << kBits) - 1);
};

/// A slot of averages, x from -1 to 1: the highest bit is the sign.
struct SignedCode {
  using Magnitude = DynamicCode<7>;
  /// The code of x, from that of the magnitude of its quotient.
  SF_HOST_DEVICE static int finished(int code, float x) { return code + (x < 0.0F ? 128 : 0); }
  SF_HOST_DEVICE static float decoded(int code) {
    const float magnitude = Magnitude::decoded(code % 128);
    return code < 128 ? magnitude : -magnitude;
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

SF_HOST_DEVICE inline float magnitude_of(float x) {
  return x < 0.0F ? -x : x;
}

/// The code of x in a block with this divisor.
template <class Code>
SF_HOST_DEVICE int encoded(float x, float divisor) {
  return Code::finished(Code::Magnitude::encoded(magnitude_of(x / divisor)), x);
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
