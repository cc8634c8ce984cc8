#pragma once

#include <bit>
#include <cstdint>

#include "base/export.h"
#include "base/host_device.h"

namespace SF_API sectionflow {

/// A number of 16 bits: the upper half of a float, so the range of f32 with a precision of 8 bits (epsilon 2^-7).
/// Arithmetic is done in float, to which it converts by itself; the way back rounds and is therefore written out.
struct BFloat16 {
  std::uint16_t bits = 0;

  BFloat16() = default;
  /// To the nearest, ties to the even one; beyond the range to infinity; NaN stays NaN, made quiet.
  SF_HOST_DEVICE explicit BFloat16(float x) : bits(rounded(std::bit_cast<std::uint32_t>(x))) {}
  /// Exact.
  SF_HOST_DEVICE operator float() const {  // NOLINT: nothing is lost
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }

 private:
  // Without a branch: loops of it become vectors.
  SF_HOST_DEVICE static std::uint16_t rounded(std::uint32_t x) {
    const std::uint32_t nearest = (x + 0x7FFFU + ((x >> 16) & 1U)) >> 16;
    const std::uint32_t quiet = (x >> 16) | 0x40U;
    return static_cast<std::uint16_t>((x & 0x7FFFFFFFU) > 0x7F800000U ? quiet : nearest);
  }
};

}  // namespace sectionflow
