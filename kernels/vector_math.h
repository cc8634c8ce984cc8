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

/// e^x within 1 ULP. Infinity above 88.722835; 0 below kLeastExp, where e^x is no normal number any more: computing
/// those would take a hundred times as long, and softmax meets them often. NaN stays NaN.
SF_HOST_DEVICE inline float exp(float x) {
  constexpr float kLog2E = 1.44269504F;
  constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: a sum with it has its unit in the last place
  const float clamped = select(x > 89.0F, 89.0F, select(x < kLeastExp, kLeastExp, x));
  const float shifted = clamped * kLog2E + kRound;
  const float n = shifted - kRound;
  const float r = (clamped - n * kLn2High) - n * kLn2Low;  // x = n ln 2 + r, |r| <= 0.35
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  const float y = (p * (r * r) + r) + 1.0F;
  // 2^n in two factors, since 2^128 is none. The bits of NaN make some factors, too, and NaN times these is NaN.
  const std::int32_t exponent = std::bit_cast<std::int32_t>(shifted) - std::bit_cast<std::int32_t>(kRound);
  const std::int32_t half = exponent >> 1;
  const float scaled = y * power_of_two(half) * power_of_two(exponent - half);
  return select(x < kLeastExp, 0.0F, scaled);
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
  const float f = std::bit_cast<float>((offset & 0x7FFFFFU) + kSqrtHalf) - 1.0F;
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
  const float y = (f + ((p * f * square + n * kLn2Low) - 0.5F * square)) + n * kLn2High;
  const float of_positive = select(x < kInfinity, y, x);
  return select(x < 0.0F, std::numeric_limits<float>::quiet_NaN(), select(x == 0.0F, -kInfinity, of_positive));
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

}  // namespace vector_math
}  // namespace sectionflow
