#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "base/dtype.h"

namespace sectionflow {
namespace {

BFloat16 of_bits(std::uint32_t bits) {
  BFloat16 number;
  number.bits = static_cast<std::uint16_t>(bits);
  return number;
}

TEST(BFloat16, EveryNumberComesBackFromFloat) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float wide = of_bits(bits);
    EXPECT_EQ(std::bit_cast<std::uint32_t>(wide), bits << 16);
    if (std::isnan(wide)) {
      EXPECT_EQ(BFloat16(wide).bits, bits | 0x40U) << bits;  // quiet, with its sign and the rest of its payload
    } else {
      EXPECT_EQ(BFloat16(wide).bits, bits) << bits;
    }
  }
}

TEST(BFloat16, NaNStaysNaNHoweverSmallItsPayload) {
  for (const std::uint32_t bits : {0x7F800001U, 0x7FFFFFFFU, 0xFF800001U, 0xFFFFFFFFU, 0x7F80FFFFU}) {
    const auto nan = std::bit_cast<float>(bits);
    EXPECT_TRUE(std::isnan(static_cast<float>(BFloat16(nan)))) << bits;
    EXPECT_EQ(std::signbit(static_cast<float>(BFloat16(nan))), std::signbit(nan)) << bits;
  }
}

TEST(BFloat16, TiesGoToTheEvenNeighbour) {
  EXPECT_EQ(static_cast<float>(BFloat16(0x1.01p0F)), 1.0F);
  EXPECT_EQ(static_cast<float>(BFloat16(0x1.03p0F)), 0x1.04p0F);
  EXPECT_EQ(static_cast<float>(BFloat16(-0x1.03p0F)), -0x1.04p0F);
  EXPECT_EQ(static_cast<float>(BFloat16(0x1.010002p0F)), 0x1.02p0F);
  EXPECT_EQ(static_cast<float>(BFloat16(0x1.00FFFEp0F)), 1.0F);
}

TEST(BFloat16, BeyondTheRangeLiesInfinity) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(static_cast<float>(BFloat16(std::numeric_limits<float>::max())), kInfinity);
  EXPECT_EQ(static_cast<float>(BFloat16(-std::numeric_limits<float>::max())), -kInfinity);
  EXPECT_EQ(static_cast<float>(BFloat16(0x1.FEFFFEp127F)), 0x1.FEp127F);
  EXPECT_EQ(static_cast<float>(BFloat16(kInfinity)), kInfinity);
}

TEST(BFloat16, EveryFloatGoesToTheNearest) {
  std::mt19937 random(5);
  for (int i = 0; i < 1000000; ++i) {
    const auto x = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (!(std::abs(x) < 0x1.FEp127F)) continue;
    const BFloat16 near(x);
    const float error = std::abs(static_cast<float>(near) - x);
    for (const std::uint32_t other : {near.bits + 1U, near.bits - 1U}) {
      const float neighbour = of_bits(other);
      if (std::isnan(neighbour)) continue;  // below 0 the bits begin anew
      EXPECT_LE(error, std::abs(neighbour - x)) << x;
    }
  }
}

}  // namespace
}  // namespace sectionflow
