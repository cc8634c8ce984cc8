#pragma once

#include <bit>
#include <cstdint>

// Elementary functions of one float for loops under `#pragma omp simd`. They consist of additions, multiplications,
// divisions and bit operations, each rounded on its own, without branches, library calls or fused operations: the
// vector body and the scalar tail of a loop give the same bits, under every compiler and instruction set. Polynomials
// are those of the Cephes Mathematical Library (S. Moshier), single precision, where nothing else is said.
// Errors are given in ULP, units in the last place of the exact result; tests/kernels/vector_math.cpp checks them.
namespace sectionflow::vector_math {

/// condition ? yes : no, by bits: a compiler that fears traps would not turn a branch around arithmetic into a vector.
inline float select(bool condition, float yes, float no) {
  const std::uint32_t mask = 0U - static_cast<std::uint32_t>(condition);
  return std::bit_cast<float>((std::bit_cast<std::uint32_t>(yes) & mask) | (std::bit_cast<std::uint32_t>(no) & ~mask));
}

/// 2^exponent for exponent in [-126, 127].
inline float power_of_two(std::int32_t exponent) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(exponent + 127) << 23);
}

// ln 2 in two parts, the first so short that its product with an exponent is exact.
inline constexpr float kLn2High = 0.693359375F;
inline constexpr float kLn2Low = -2.12194440e-4F;

/// The least x whose exp is a normal number.
inline constexpr float kLeastExp = -87.33654F;

/// e^x within 1 ULP. Infinity above 88.722835; 0 below kLeastExp, where e^x is no normal number any more: computing
/// those would take a hundred times as long, and softmax meets them often. NaN stays NaN.
inline float exp(float x) {
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

}  // namespace sectionflow::vector_math
