#pragma once

#include "base/host_device.h"

namespace sectionflow::formulas {

/// Numbers from 0 to 1 in kBits bits. The leading one of a code says the decade, what follows it the place within the
/// decade: with n for the leading one and s a power of ten, code n + j is s (0.1 + 0.9 (j + 1) / n), so that the
/// largest code is 1 and each decade ends where the next begins. 0 is 0. Source: Dettmers 2016, "8-bit approximations
/// for parallelism in deep learning", dynamic tree; his are the middles of the intervals whose ends these are, and have
/// 1 as an exception.
template <int kBits>
struct DynamicCode {
  /// The code of the number nearest to x; of what is no number from 0 to 1, some code.
  SF_HOST_DEVICE static int encoded(float x) {
    float n = static_cast<float>(1 << (kBits - 1));
    for (int decade = 1; decade < kBits; ++decade) {
      const bool is_below = x <= 0.1F;
      x = is_below ? 10.0F * x : x;
      n = is_below ? 0.5F * n : n;
    }
    const float code = n - 0.5F + (x - 0.1F) * (n / 0.9F);
    // Also where it is NaN.
    return !(code >= 0.0F) ? 0 : static_cast<int>(code < kLargest ? code : kLargest);
  }
  /// The same, but for 0 itself never 0.
  SF_HOST_DEVICE static int encoded_above_zero(float x) {
    const int code = encoded(x);
    return code == 0 && x > 0.0F ? 1 : code;
  }
  SF_HOST_DEVICE static float decoded(int code) {
    int n = 1 << (kBits - 1);
    float scale = 1;
    for (int decade = 1; decade < kBits; ++decade) {
      const bool is_below = code < n;
      scale = is_below ? scale / 10.0F : scale;
      n = is_below ? n / 2 : n;
    }
    return code == 0 ? 0.0F : scale * (0.1F + 0.9F * static_cast<float>(code - n + 1) / static_cast<float>(n));
  }

 private:
  static constexpr float kLargest = static_cast<float>((1 << kBits) - 1);
};

/// A slot of averages with a sign: the highest bit.
struct SignedCode {
  SF_HOST_DEVICE static unsigned char encoded(float x, float scale) {
    const float magnitude = x < 0 ? -x : x;
    return static_cast<unsigned char>(DynamicCode<7>::encoded(quotient(magnitude, scale)) + (x < 0 ? 128 : 0));
  }
  SF_HOST_DEVICE static float decoded(int code) {
    const float magnitude = DynamicCode<7>::decoded(code % 128);
    return code < 128 ? magnitude : -magnitude;
  }
  /// Not above 1 up to rounding; 0 where all of a block is 0.
  SF_HOST_DEVICE static float quotient(float magnitude, float scale) { return scale == 0 ? 0.0F : magnitude / scale; }
};

/// A slot of roots, which have no sign.
struct RootCode {
  SF_HOST_DEVICE static unsigned char encoded(float x, float scale) {
    return static_cast<unsigned char>(DynamicCode<8>::encoded_above_zero(SignedCode::quotient(x, scale)));
  }
  SF_HOST_DEVICE static float decoded(int code) { return DynamicCode<8>::decoded(code); }
};

/// The larger magnitude; NaN where there is one.
struct LargerMagnitude {
  SF_HOST_DEVICE float operator()(float largest, float x) const {
    const float magnitude = x < 0 ? -x : x;
    return magnitude <= largest || largest != largest ? largest : magnitude;
  }
};

}  // namespace sectionflow::formulas
