#pragma once

#include "base/host_device.h"
#include "kernels/vector_math.h"

/// Element-wise arithmetic that every device's kernels share, so that it is written, and rounds, once.
namespace sectionflow::formulas {

// NaN passes, since it is not <= 0.
struct Relu {
  SF_HOST_DEVICE float operator()(float x) const { return x <= 0.0F ? 0.0F : x; }
};
struct ReluGrad {
  SF_HOST_DEVICE float operator()(float dy, float y) const { return y > 0.0F ? dy : 0.0F; }
};

struct Tanh {
  SF_HOST_DEVICE float operator()(float x) const { return vector_math::tanh(x); }
};
struct TanhGrad {
  SF_HOST_DEVICE float operator()(float dy, float y) const { return dy * (1.0F - y * y); }
};

struct Sigmoid {
  SF_HOST_DEVICE float operator()(float x) const { return vector_math::sigmoid(x); }
};
struct SigmoidGrad {
  SF_HOST_DEVICE float operator()(float dy, float y) const { return dy * (y * (1.0F - y)); }
};

struct Silu {
  SF_HOST_DEVICE float operator()(float x) const { return x * vector_math::sigmoid(x); }
};
struct SiluGrad {
  SF_HOST_DEVICE float operator()(float dy, float x) const {
    const float s = vector_math::sigmoid(x);
    return dy * (s * (1.0F + x * (1.0F - s)));
  }
};

struct Gelu {
  SF_HOST_DEVICE float operator()(float x) const { return x * vector_math::normal(x).probability; }
};
struct GeluGrad {
  SF_HOST_DEVICE float operator()(float dy, float x) const {
    const vector_math::Normal at_x = vector_math::normal(x);
    return dy * (at_x.probability + x * at_x.density);
  }
};

// (1 + tanh(u)) / 2 = sigmoid(2 u), where 2 u = kSlope (x + kCubic x^3).
struct GeluOfTanh {
  static constexpr float kSlope = 1.59576912F;  // 2 sqrt(2 / pi)
  static constexpr float kCubic = 0.044715F;

  SF_HOST_DEVICE float operator()(float x) const {
    return x * vector_math::sigmoid(kSlope * (x + kCubic * (x * x * x)));
  }
};
struct GeluOfTanhGrad {
  SF_HOST_DEVICE float operator()(float dy, float x) const {
    constexpr float kSlope = GeluOfTanh::kSlope, kCubic = GeluOfTanh::kCubic;
    // Beyond 10 the slope is 0 or 1 to the last digit; without a bound, large x would give infinity times 0.
    const float bounded = vector_math::select(x > 10.0F, 10.0F, vector_math::select(x < -10.0F, -10.0F, x));
    const float square = bounded * bounded;
    const float s = vector_math::sigmoid(kSlope * (bounded + kCubic * (square * bounded)));
    return dy * (s + bounded * (s * (1.0F - s)) * (kSlope * (1.0F + 3.0F * kCubic * square)));
  }
};

}  // namespace sectionflow::formulas
