#pragma once

#include <bit>
#include <cstdint>
#include <limits>

#include "base/export.h"
#include "base/host_device.h"

// Elementary functions of one float for loops under `#pragma omp simd`. They consist of additions, multiplications,
// divisions and bit operations, each rounded on its own, without branches, library calls or fused operations: the
// vector body and the scalar tail of a loop give the same bits, under every compiler and instruction set, and so do
// CUDA kernels. Polynomials are those of the Cephes Mathematical Library (S. Moshier), single precision, where nothing
// else is said. Errors are given in ULP, units in the last place of the exact result; tests/kernels/vector_math.cpp
// checks them.
namespace SF_API sectionflow {
namespace vector_math {

/// condition ? yes : no, by bits: a compiler that fears traps would not turn a branch around arithmetic into a vector.
SF_HOST_DEVICE inline float select(bool condition, float yes, float no) {
  const std::uint32_t mask = 0U - static_cast<std::uint32_t>(condition);
  return std::bit_cast<float>((std::bit_cast<std::uint32_t>(yes) & mask) | (std::bit_cast<std::uint32_t>(no) & ~mask));
}

SF_HOST_DEVICE inline std::int32_t select(bool condition, std::int32_t yes, std::int32_t no) {
  const std::int32_t mask = -static_cast<std::int32_t>(condition);
  return (yes & mask) | (no & ~mask);
}

/// |x|.
SF_HOST_DEVICE inline float magnitude(float x) {
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) & 0x7FFFFFFFU);
}

/// 2^exponent for exponent in [-126, 127].
SF_HOST_DEVICE inline float power_of_two(std::int32_t exponent) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(exponent + 127) << 23);
}

// ln 2 in two parts, the first so short that its product with an exponent is exact.
inline constexpr float kLn2High = 0.693359375F;
inline constexpr float kLn2Low = -2.12194440e-4F;

/// The least x whose exp is a normal number.
inline constexpr float kLeastExp = -87.33654F;

/// e^x = 2^exponent (1 + fraction), for what x is held to: kLeastExp to 89.
struct Exponential {
  float fraction;  ///< e^r - 1, |r| <= 0.35
  std::int32_t exponent;

  /// 2^exponent y, in two factors, since 2^128 is none.
  SF_HOST_DEVICE float scaled(float y) const {
    const std::int32_t half = exponent >> 1;
    return y * power_of_two(half) * power_of_two(exponent - half);
  }
};
SF_HOST_DEVICE inline Exponential exponential(float x) {
  constexpr float kLog2E = 1.44269504F;
  constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: a sum with it has its unit in the last place
  const float clamped = select(x > 89.0F, 89.0F, select(x < kLeastExp, kLeastExp, x));
  const float shifted = clamped * kLog2E + kRound;
  const float n = shifted - kRound;
  const float r = (clamped - n * kLn2High) - n * kLn2Low;  // x = n ln 2 + r
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  // The bits of NaN make some exponent, too, beside the fraction NaN.
  return {p * (r * r) + r, std::bit_cast<std::int32_t>(shifted) - std::bit_cast<std::int32_t>(kRound)};
}

/// e^x within 1 ULP. Infinity above 88.722835; 0 below kLeastExp, where e^x is no normal number any more: computing
/// those would take a hundred times as long, and softmax meets them often. NaN stays NaN.
SF_HOST_DEVICE inline float exp(float x) {
  const Exponential e = exponential(x);
  return select(x < kLeastExp, 0.0F, e.scaled(e.fraction + 1.0F));
}

/// e^x - 1 within 3 ULP; -1 below kLeastExp. NaN stays NaN.
SF_HOST_DEVICE inline float expm1(float x) {
  const Exponential e = exponential(x);
  const float scale = power_of_two(select(x > 20.0F, 0, e.exponent));
  return select(x > 20.0F, e.scaled(e.fraction + 1.0F), scale * e.fraction + (scale - 1.0F));
}

/// ln(2^n (1 + f)) for 1 + f in [sqrt(1/2), sqrt(2)).
SF_HOST_DEVICE inline float log_of(float n, float f) {
  const float square = f * f;
  float p = 7.0376836292e-2F;
  p = p * f - 1.1514610310e-1F;
  p = p * f + 1.1676998740e-1F;
  p = p * f - 1.2420140846e-1F;
  p = p * f + 1.4249322787e-1F;
  p = p * f - 1.6668057665e-1F;
  p = p * f + 2.0000714765e-1F;
  p = p * f - 2.4999993993e-1F;
  p = p * f + 3.3333331174e-1F;
  return (f + ((p * f * square + n * kLn2Low) - 0.5F * square)) + n * kLn2High;
}

/// ln x within 1 ULP, for subnormal x too. NaN below 0, -infinity at 0; infinity and NaN stay.
SF_HOST_DEVICE inline float log(float x) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr std::uint32_t kSqrtHalf = 0x3F3504F3;  // its bits
  const bool is_subnormal = x < 0x1p-126F;
  const float scaled = x * select(is_subnormal, 0x1p23F, 1.0F);
  // x = 2^n m with m in [sqrt(1/2), sqrt(2)).
  const std::uint32_t offset = std::bit_cast<std::uint32_t>(scaled) - kSqrtHalf;
  const float n = static_cast<float>(static_cast<std::int32_t>(offset) >> 23) - select(is_subnormal, 23.0F, 0.0F);
  const float y = log_of(n, std::bit_cast<float>((offset & 0x7FFFFFU) + kSqrtHalf) - 1.0F);
  const float of_positive = select(x < kInfinity, y, x);
  return select(x < 0.0F, std::numeric_limits<float>::quiet_NaN(), select(x == 0.0F, -kInfinity, of_positive));
}

/// ln(1 + e^x) within 3 ULP, but 0 where e^x is. Infinity stays, and NaN.
SF_HOST_DEVICE inline float softplus(float x) {
  const float e = exp(-magnitude(x));
  const bool is_large = e > 0.41421356F;
  const float tail = log_of(select(is_large, 1.0F, 0.0F), select(is_large, 0.5F * e - 0.5F, e));
  // Of two NaN a sum gives either, as the compiler likes: only one is left.
  return select(x <= 0.0F, 0.0F, x) + select(x == x, tail, 0.0F);
}

/// ln(1 + x) within 4 ULP; -infinity at -1, NaN below. What rounding has made of 1 + x, it tells itself (Kahan's
/// correction).
SF_HOST_DEVICE inline float log1p(float x) {
  const float u = 1.0F + x;
  const float corrected = log(u) * (x / (u - 1.0F));
  const float far = select(u == std::numeric_limits<float>::infinity(), u, corrected);
  return select(u == 1.0F, x, far);
}

/// 1 / (1 + e^-x) within 3 ULP; below -88.7 it is 0. NaN stays NaN.
SF_HOST_DEVICE inline float sigmoid(float x) {
  return 1.0F / (1.0F + exp(-x));
}

/// (e^x - e^-x) / (e^x + e^-x) within 2 ULP. NaN stays NaN.
SF_HOST_DEVICE inline float tanh(float x) {
  const float a = magnitude(x);
  const float square = x * x;
  float p = -5.70498872745e-3F;
  p = p * square + 2.06390887954e-2F;
  p = p * square - 5.37397155531e-2F;
  p = p * square + 1.33314422036e-1F;
  p = p * square - 3.33332819422e-1F;
  const float near_zero = p * square * x + x;
  const float far = 1.0F - 2.0F / (exp(a + a) + 1.0F);
  return select(a < 0.625F, near_zero, select(x < 0.0F, -far, far));
}

/// Of the normal distribution at x: the density e^(-x^2/2) / sqrt(2 pi), and the probability of less than x.
struct Normal {
  float density, probability;
};
/// Both within 2^-22, and within 7 + x^2 ULP, but 0 where e^(-x^2/2) is (|x| > 13.2). NaN stays NaN.
/// Source: the probability of less than -a, a >= 0, is e^(-a^2/2) q(s) / (a + 4) with s = (a - 4) / (a + 4), where q
/// interpolates the exact values at the Chebyshev points of [0, 13.3], with a relative error of 1.2e-8.
SF_HOST_DEVICE inline Normal normal(float x) {
  const float a = magnitude(x);
  const float exponential = exp(-0.5F * (a * a));
  const float clamped = select(a > 14.0F, 14.0F, a);
  const float reciprocal = 1.0F / (clamped + 4.0F);
  const float s = (clamped - 4.0F) * reciprocal;
  float q = -1.158436367e-4F;
  q = q * s + 2.11579292e-4F;
  q = q * s + 1.577709262e-3F;
  q = q * s - 3.529760179e-3F;
  q = q * s - 7.532520982e-3F;
  q = q * s + 6.040685058e-2F;
  q = q * s - 1.865222052e-1F;
  q = q * s + 3.871367051e-1F;
  q = q * s - 6.078966355e-1F;
  q = q * s + 7.552851379e-1F;
  const float tail = exponential * (q * reciprocal);
  return {exponential * 0.398942280F, select(x > 0.0F, 1.0F - tail, tail)};
}

/// The error function within 3 ULP. Source: near 0 a polynomial in x^2 that interpolates erf(x) / x at the Chebyshev
/// points of [0, 0.75^2], with a relative error of 2e-9; elsewhere the tail of the normal distribution.
SF_HOST_DEVICE inline float erf(float x) {
  const float square = x * x;
  float p = -6.756479569e-4F;
  p = p * square + 5.115332113e-3F;
  p = p * square - 2.683511457e-2F;
  p = p * square + 1.128338654e-1F;
  p = p * square - 3.761261947e-1F;
  const float near_zero = x * (p * square + 1.128379166F);
  const float far = 1.0F - 2.0F * normal(magnitude(x) * -1.41421356F).probability;
  return select(magnitude(x) < 0.75F, near_zero, select(x < 0.0F, -far, far));
}

// Sine and cosine, in double: x is a whole number of half turns, for the cosine and a quarter, and r beside, of which
// the sine is a polynomial.

/// sin(r) for |r| <= pi / 2, with a relative error of 3e-11. It interpolates sin(r) / r at the Chebyshev points of r^2.
SF_HOST_DEVICE inline double sine_of_half_turn(double r) {
  const double square = r * r;
  double p = -2.3889104032675582e-8;
  p = p * square + 2.7525263495417919e-6;
  p = p * square - 1.9840861058037127e-4;
  p = p * square + 8.3333309732718788e-3;
  p = p * square - 1.6666666616790811e-1;
  p = p * square + 9.9999999998290892e-1;
  return p * r;
}

/// y, or -y where the last bit of `half_turns` is set.
SF_HOST_DEVICE inline float turned(double y, std::uint64_t half_turns) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half_turns) << 31;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(static_cast<float>(y)) ^ sign);
}

/// From here on sines take `sine_far`: a product with a third part of pi would no more be exact enough.
inline constexpr float kFar = 0x1p25F;

/// sin(x + quarter pi / 2) for quarter 0 or 1 and |x| < kFar. A quarter turn is in three parts, the first two of so few
/// digits that their products are exact.
SF_HOST_DEVICE inline float sine_near(float x, int quarter) {
  constexpr double kInversePi = 0.318309886183790672;
  constexpr double kRound = 0x1.8p52;  // a sum with it has its unit in the last place
  constexpr double kHigh = 0x1.921fb54p0, kMiddle = 0x1.10b461p-30, kLow = 0x1.a62633145c06ep-58;
  const double exact = x, shifted = (exact * kInversePi - 0.5 * quarter) + kRound;
  const double quarters = 2 * (shifted - kRound) + quarter;
  const double r = ((exact - quarters * kHigh) - quarters * kMiddle) - quarters * kLow;
  const float y =
      turned(sine_of_half_turn(r), std::bit_cast<std::uint64_t>(shifted) + static_cast<std::uint64_t>(quarter));
  return select(x == x, y, std::numeric_limits<float>::quiet_NaN());
}

/// The same for kFar <= |x| < infinity: x = m 2^e, and of 2 / pi, in binary, the digits before those that make less
/// than whole turns are left out (Payne and Hanek 1983).
SF_HOST_DEVICE inline float sine_far(float x, int quarter) {
  // The first 256 digits of 2 / pi.
  constexpr std::uint64_t k0 = 0xA2F9836E4E441529, k1 = 0xFC2757D1F534DDC0, k2 = 0xDB6295993C439041,
                          k3 = 0xFE5163ABDEBBC561;
  constexpr std::uint64_t kQuarter = std::uint64_t{1} << 62, kHalf = std::uint64_t{1} << 63;
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  const std::uint64_t m = (bits & 0x7FFFFFU) | 0x800000U;
  const std::uint32_t first = (((bits >> 23) & 0xFFU) - 152U) & 127U;  // digit; others than from kFar on are not meant
  const std::uint64_t is_late = 0 - static_cast<std::uint64_t>(first >> 6), shift = first & 63U;
  const std::uint64_t a = k0 ^ ((k0 ^ k1) & is_late), b = k1 ^ ((k1 ^ k2) & is_late), c = k2 ^ ((k2 ^ k3) & is_late);
  const std::uint64_t high = (a << shift) | ((b >> 1) >> (63U - shift));
  const std::uint64_t low = (b << shift) | ((c >> 1) >> (63U - shift));
  // |x| + quarter as a share of a turn, in units of 2^-64.
  const std::uint64_t turns = m * high + ((m * (low >> 32)) >> 32) + static_cast<std::uint64_t>(quarter) * kQuarter;
  const std::uint64_t shifted = turns + kQuarter;
  const std::uint64_t beside = (shifted & (kHalf - 1)) - kQuarter;  // in two's complement
  // By halves: few instruction sets turn 64 bits into a double.
  const auto upper = static_cast<std::int32_t>(static_cast<std::uint32_t>(beside >> 32));
  const auto lower = static_cast<std::int32_t>(static_cast<std::uint32_t>(beside) >> 1);
  const double r = (upper * 0x1p32 + lower * 2.0) * (3.14159265358979324 * 0x1p-63);
  const std::uint64_t is_negative = quarter != 0 ? 0 : bits >> 31;
  return turned(sine_of_half_turn(r), (shifted >> 63) ^ is_negative);
}

SF_HOST_DEVICE inline float sine(float x, int quarter) {
  const float a = magnitude(x);
  const float y = select(a < kFar, sine_near(x, quarter), sine_far(x, quarter));
  return select(a < std::numeric_limits<float>::infinity(), y, std::numeric_limits<float>::quiet_NaN());
}

/// sin x and cos x within 1 ULP; NaN where x is infinite or NaN.
SF_HOST_DEVICE inline float sin(float x) {
  return sine(x, 0);
}
SF_HOST_DEVICE inline float cos(float x) {
  return sine(x, 1);
}

}  // namespace vector_math
}  // namespace sectionflow
