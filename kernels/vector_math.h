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

/// y, which has no sign or that of x already, with that of x.
SF_HOST_DEVICE inline float with_sign_of(float x, float y) {
  return std::bit_cast<float>((std::bit_cast<std::uint32_t>(x) & 0x80000000U) | std::bit_cast<std::uint32_t>(y));
}

// ln 2 in two parts, the first so short that its product with an exponent is exact.
inline constexpr float kLn2High = 0.693359375F;
inline constexpr float kLn2Low = -2.12194440e-4F;

/// The least x whose exp is a normal number, and the largest whose exp is finite.
inline constexpr float kLeastExp = -87.33654F;
inline constexpr float kMostExp = 88.722835F;

/// e^x = 2^n (1 + fraction) for kLeastExp <= x <= 89. Others, and NaN, have a power that means nothing.
struct Exponential {
  float fraction;       ///< e^r - 1 within 2 ULP, |r| <= 0.35
  std::uint32_t power;  ///< n 2^23: added to the bits of a number, it multiplies it by 2^n

  /// 2^n y; both are normal numbers.
  SF_HOST_DEVICE float times(float y) const { return std::bit_cast<float>(std::bit_cast<std::uint32_t>(y) + power); }
};
/// Source: the fraction is r + r^2 p(r) with p of the least relative error on [-0.347, 0.347], 4e-10.
SF_HOST_DEVICE inline Exponential exponential(float x) {
  constexpr float kLog2E = 1.44269504F;
  constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: a sum with it has its unit in the last place
  const float shifted = x * kLog2E + kRound;
  const float n = shifted - kRound;
  const float r = (x - n * kLn2High) - n * kLn2Low;  // x = n ln 2 + r
  const float square = r * r;
  const float highest = 1.97625282e-4F * r + 1.393233309e-3F;
  const float high = (8.333545178e-3F * r + 4.166649282e-2F) + highest * square;
  const float p = (1.666666567e-1F * r + 0.5F) + high * square;
  return {p * square + r, std::bit_cast<std::uint32_t>(shifted) << 23};
}

/// e^x within 1 ULP. Infinity above kMostExp; 0 below kLeastExp, where e^x is no normal number any more: computing
/// those would take a hundred times as long, and softmax meets them often. NaN stays NaN.
SF_HOST_DEVICE inline float exp(float x) {
  const Exponential e = exponential(x);
  const float finite = select(x <= kMostExp, e.times(e.fraction + 1.0F), x + std::numeric_limits<float>::infinity());
  return select(x < kLeastExp, 0.0F, finite);
}

/// e^x - 1 within 3 ULP. NaN stays NaN.
SF_HOST_DEVICE inline float expm1(float x) {
  // Below -20 it is -1 to the last digit, above 89 infinite.
  const Exponential e = exponential(select(x < -20.0F, -20.0F, select(x > 89.0F, 89.0F, x)));
  // Half of it first, since 2^128 is no number.
  const float half = e.times(0.5F);
  const float y = half * e.fraction + (half - 0.5F);
  // Near 0 the product may be no normal number, which sessions take for 0.
  return select(magnitude(x) < 0x1p-25F, x, y + y);
}

/// ln(2^n (1 + f)) for 1 + f in [sqrt(1/2), sqrt(2)).
SF_HOST_DEVICE inline float log_of(float n, float f) {
  const float square = f * f;
  float even = 7.0376836292e-2F;
  even = even * square + 1.1676998740e-1F;
  even = even * square + 1.4249322787e-1F;
  even = even * square + 2.0000714765e-1F;
  even = even * square + 3.3333331174e-1F;
  float odd = -1.1514610310e-1F;
  odd = odd * square - 1.2420140846e-1F;
  odd = odd * square - 1.6668057665e-1F;
  odd = odd * square - 2.4999993993e-1F;
  const float p = odd * f + even;
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
/// Source: ln(1 + e) / e for 0 <= e <= 1 is a polynomial of the least relative error, 5e-9.
SF_HOST_DEVICE inline float softplus(float x) {
  const float a = magnitude(x);
  const Exponential of_minus_a = exponential(-a);
  const float e = select(a <= -kLeastExp, of_minus_a.times(of_minus_a.fraction + 1.0F), 0.0F);
  const float t = e - 0.4267578125F;
  const float square = t * t;
  float even = 7.369534112e-3F;
  even = even * square + 1.594240218e-2F;
  even = even * square + 4.520289972e-2F;
  even = even * square + 1.487471759e-1F;
  even = even * square + 8.328016400e-1F;
  float odd = -3.228168935e-3F;
  odd = odd * square - 1.04550961e-2F;
  odd = odd * square - 2.65464004e-2F;
  odd = odd * square - 7.962249219e-2F;
  odd = odd * square - 3.091022670e-1F;
  return select(x <= 0.0F, 0.0F, x) + (odd * t + even) * e;
}

/// ln(1 + x) within 4 ULP; -infinity at -1, NaN below, -0 at -0. 1 + x = 2^n (1 + f), where f is not computed from the
/// sum, which is rounded, but as 2^-n x + (2^-n - 1).
SF_HOST_DEVICE inline float log1p(float x) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr std::uint32_t kSqrtHalf = 0x3F3504F3;  // its bits
  const std::uint32_t offset = std::bit_cast<std::uint32_t>(1.0F + x) - kSqrtHalf;
  const std::uint32_t power = offset & 0xFF800000U;  // n 2^23
  const auto scale = static_cast<std::int32_t>(0x3F800000U - power);
  // 2^-128 is no normal number, and none to be missed.
  const float one_less = std::bit_cast<float>(scale > 0 ? scale : 0) - 1.0F;
  const float f = std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) - power) + one_less;
  const float y = with_sign_of(x, log_of(static_cast<float>(static_cast<std::int32_t>(offset) >> 23), f));
  const float of_no_number = select(x == -1.0F, -kInfinity, std::numeric_limits<float>::quiet_NaN());
  return select(x > -1.0F, select(x < kInfinity, y, x), of_no_number);
}

/// 1 / (1 + e^-x) within 3 ULP; below -88.7 it is 0. NaN stays NaN.
SF_HOST_DEVICE inline float sigmoid(float x) {
  return 1.0F / (1.0F + exp(-x));
}

/// (e^x - e^-x) / (e^x + e^-x) within 2 ULP. NaN stays NaN.
SF_HOST_DEVICE inline float tanh(float x) {
  const float a = magnitude(x);
  // (1 - e^-2a) / (1 + e^-2a), which is 1 to the last digit from 9.1 on.
  const Exponential e = exponential(-2.0F * select(a > 9.1F, 9.1F, a));
  const float scale = e.times(1.0F);
  const float product = scale * e.fraction;
  return with_sign_of(x, ((1.0F - scale) - product) / ((1.0F + scale) + product));
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
  const float square = s * s;
  float even = 2.11579292e-4F;
  even = even * square - 3.529760179e-3F;
  even = even * square + 6.040685058e-2F;
  even = even * square + 3.871367051e-1F;
  even = even * square + 7.552851379e-1F;
  float odd = -1.158436367e-4F;
  odd = odd * square + 1.577709262e-3F;
  odd = odd * square - 7.532520982e-3F;
  odd = odd * square - 1.865222052e-1F;
  odd = odd * square - 6.078966355e-1F;
  const float tail = exponential * ((odd * s + even) * reciprocal);
  return {exponential * 0.398942280F, select(x > 0.0F, 1.0F - tail, tail)};
}

/// The error function within 3 ULP. Source: 1 - e^-t with t = x + x p(x) for x >= 0, where p has the least error that
/// it makes in the result relative to that, 4e-8; beyond 3.93 it is 1 to the last digit.
SF_HOST_DEVICE inline float erf(float x) {
  const float a = magnitude(x);
  const float bounded = select(a > 3.93F, 3.93F, a);
  const float square = bounded * bounded;
  float even = -3.79008387e-4F;
  even = even * square + 2.1344758e-4F;
  even = even * square + 1.02816105e-1F;
  even = even * square + 1.28379211e-1F;
  float odd = 4.04431266e-5F;
  odd = odd * square + 1.24607852e-3F;
  odd = odd * square - 1.93269905e-2F;
  odd = odd * square + 6.3661629e-1F;
  const float t = (odd * bounded + even) * bounded + bounded;
  const Exponential e = exponential(-t);
  const float scale = e.times(1.0F);
  // Near 0 terms of t may be no normal numbers, which sessions take for 0.
  return with_sign_of(x, select(a < 0x1p-20F, 1.12837917F * a, (1.0F - scale) - scale * e.fraction));
}

// Sine and cosine, where x is not near 0 in double: x is a whole number of half turns, for the cosine and a quarter,
// and r beside, of which the sine is a polynomial.

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

/// sin(x + quarter pi / 2) for quarter 0 or 1 and |x| < kNear, in f32: x is a whole number n of quarter turns, and r
/// beside, |r| <= 0.79, of which sine and cosine are polynomials of the least relative error, 4e-9. A quarter turn is
/// in three parts: n times the first two is exact, as is what is left of x after the first, so that `less` makes r
/// whole.
SF_HOST_DEVICE inline float sine_by_quarters(float x, int quarter) {
  constexpr float kTurns = 0.636619772F;  // 2 / pi
  constexpr float kRound = 12582912.0F;   // as in `exponential`
  constexpr float kHigh = 0x1.921fp0F, kMiddle = 0x1.6a88p-17F, kLow = 0x1.0b4612p-34F;
  const float shifted = x * kTurns + kRound;
  const float n = shifted - kRound;
  const float of_high = x - n * kHigh, of_middle = n * kMiddle;
  const float r = of_high - of_middle;
  const float less = n * kLow - ((of_high - r) - of_middle);  // x = n quarters + r - less
  const float square = r * r;
  const float s = (-1.951790764e-4F * square + 8.33218731e-3F) * square - 1.666665524e-1F;
  const float sine = r - (less - s * (square * r));
  const float c = (2.443233279e-5F * square - 1.388730947e-3F) * square + 4.166664556e-2F;
  const float half = 0.5F * square, most = 1.0F - half;  // (1 - most) - half is what that rounded away
  const float cosine = most + (((1.0F - most) - half) + (c * (square * square) + r * less));
  const std::uint32_t turns = std::bit_cast<std::uint32_t>(shifted) + static_cast<std::uint32_t>(quarter);
  const float y = select((turns & 1U) != 0, cosine, sine);
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(y) ^ ((turns << 30) & 0x80000000U));
}

/// From here on sines are computed in double.
inline constexpr float kNear = 128;
/// From here on sines take `sine_far`: a product with a third part of pi would no more be exact enough.
inline constexpr float kFar = 0x1p25F;

/// The same for |x| < kFar. A quarter turn is in three parts, the first two of so few digits that their products are
/// exact.
SF_HOST_DEVICE inline float sine_by_half_turns(float x, int quarter) {
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

/// The same for |x| < kFar, by what there is for each part of that.
SF_HOST_DEVICE inline float sine_below_far(float x, int quarter) {
  return select(magnitude(x) < kNear, sine_by_quarters(x, quarter), sine_by_half_turns(x, quarter));
}

SF_HOST_DEVICE inline float sine(float x, int quarter) {
  const float a = magnitude(x);
  const float y = select(a < kFar, sine_below_far(x, quarter), sine_far(x, quarter));
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
