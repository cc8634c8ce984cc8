#pragma once

#include <cmath>
#include <cstdint>

#include "base/host_device.h"
#include "kernels/vector_math.h"

/// Element-wise functions of one number, shared by every device, so that each is written, and rounds, once.
namespace sectionflow::formulas {

struct Negate {
  SF_HOST_DEVICE float operator()(float x) const { return -x; }
  // Unsigned, so that the lowest number wraps around.
  SF_HOST_DEVICE std::uint64_t operator()(std::uint64_t x) const { return 0 - x; }
};

struct Square {
  SF_HOST_DEVICE float operator()(float x) const { return x * x; }
};
struct SquareGrad {
  SF_HOST_DEVICE float operator()(float dy, float x) const { return dy * (x + x); }
};

struct Sqrt {
  SF_HOST_DEVICE float operator()(float x) const { return std::sqrt(x); }
};
struct SqrtGrad {
  SF_HOST_DEVICE float operator()(float dy, float y) const { return dy * 0.5F / y; }
};

struct Rsqrt {
  SF_HOST_DEVICE float operator()(float x) const { return 1.0F / std::sqrt(x); }
};
struct RsqrtGrad {
  SF_HOST_DEVICE float operator()(float dy, float y) const { return dy * -0.5F * y * (y * y); }
};

struct Exp {
  SF_HOST_DEVICE float operator()(float x) const { return vector_math::exp(x); }
};
struct Log {
  SF_HOST_DEVICE float operator()(float x) const { return vector_math::log(x); }
};

struct Expm1 {
  SF_HOST_DEVICE float operator()(float x) const { return vector_math::expm1(x); }
};
struct Log1p {
  SF_HOST_DEVICE float operator()(float x) const { return vector_math::log1p(x); }
};

struct Abs {
  SF_HOST_DEVICE float operator()(float x) const { return vector_math::magnitude(x); }
};
struct Sign {
  SF_HOST_DEVICE float operator()(float x) const { return x > 0.0F ? 1.0F : (x < 0.0F ? -1.0F : x); }
};

struct Sin {
  SF_HOST_DEVICE float operator()(float x) const { return vector_math::sin(x); }
};
struct Cos {
  SF_HOST_DEVICE float operator()(float x) const { return vector_math::cos(x); }
};
/// The same where |x| < kNear.
struct SinNear {
  SF_HOST_DEVICE float operator()(float x) const { return vector_math::sine_by_quarters(x, 0); }
};
struct CosNear {
  SF_HOST_DEVICE float operator()(float x) const { return vector_math::sine_by_quarters(x, 1); }
};
/// The same where |x| < kFar.
struct SinBelowFar {
  SF_HOST_DEVICE float operator()(float x) const { return vector_math::sine_below_far(x, 0); }
};
struct CosBelowFar {
  SF_HOST_DEVICE float operator()(float x) const { return vector_math::sine_below_far(x, 1); }
};
struct Erf {
  SF_HOST_DEVICE float operator()(float x) const { return vector_math::erf(x); }
};

/// Of a number as it is stored.
struct IsFinite {
  template <class T>
  SF_HOST_DEVICE bool operator()(T stored) const {
    const float x = static_cast<float>(stored);
    return x - x == 0.0F;
  }
};
struct Not {
  SF_HOST_DEVICE bool operator()(bool x) const { return !x; }
};

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

struct Softplus {
  SF_HOST_DEVICE float operator()(float x) const { return vector_math::softplus(x); }
};

// With e = e^x and n = e (e + 2): tanh(ln(1 + e)) = n / (n + 2), and its derivative is 4 e (1 + e) / (n + 2)^2. Beyond
// 20 they are 1 and 0 to the last digit; without a bound, e^x would overflow.
struct Mish {
  SF_HOST_DEVICE float operator()(float x) const {
    const float e = vector_math::exp(vector_math::select(x > 20.0F, 20.0F, x));
    const float n = e * (e + 2.0F);
    return x * (n / (n + 2.0F));
  }
};
struct MishGrad {
  SF_HOST_DEVICE float operator()(float dy, float x) const {
    const float bounded = vector_math::select(x > 20.0F, 20.0F, vector_math::select(x < -90.0F, -90.0F, x));
    const float e = vector_math::exp(bounded);
    const float n = e * (e + 2.0F), m = n + 2.0F;
    return dy * (n / m + bounded * (4.0F * e * (1.0F + e) / (m * m)));
  }
};

struct HardSwish {
  SF_HOST_DEVICE float operator()(float x) const {
    const float shifted = x + 3.0F;
    const float bounded = vector_math::select(shifted < 0.0F, 0.0F, vector_math::select(shifted > 6.0F, 6.0F, shifted));
    return x * (bounded / 6.0F);
  }
};
struct HardSwishGrad {
  SF_HOST_DEVICE float operator()(float dy, float x) const {
    const float within = vector_math::select(x >= 3.0F, dy, dy * ((x + x + 3.0F) / 6.0F));
    return vector_math::select(x <= -3.0F, 0.0F, within);
  }
};

struct LeakyRelu {
  float slope;
  SF_HOST_DEVICE float operator()(float x) const { return vector_math::select(x > 0.0F, x, slope * x); }
};
struct LeakyReluGrad {
  float slope;
  SF_HOST_DEVICE float operator()(float dy, float y) const { return vector_math::select(y > 0.0F, dy, slope * dy); }
};

struct Elu {
  float alpha;
  SF_HOST_DEVICE float operator()(float x) const {
    return vector_math::select(x > 0.0F, x, alpha * vector_math::expm1(x));
  }
};
struct EluGrad {
  float alpha;
  SF_HOST_DEVICE float operator()(float dy, float y) const {
    return vector_math::select(y > 0.0F, dy, dy * (y + alpha));
  }
};

struct Clip {
  float low, high;
  SF_HOST_DEVICE float operator()(float x) const {
    return vector_math::select(x < low, low, vector_math::select(x > high, high, x));
  }
};
struct ClipGrad {
  float low, high;
  SF_HOST_DEVICE float operator()(float dy, float x) const {
    const float passed = x <= high ? dy : 0.0F;
    return x >= low ? passed : 0.0F;
  }
};

}  // namespace sectionflow::formulas
