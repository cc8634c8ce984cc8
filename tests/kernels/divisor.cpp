#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/positions.h"

namespace sectionflow::gpu {
namespace {

constexpr std::int64_t kLimit = std::int64_t{1} << 31;

TEST(Divisor, DividesAsDivisionDoes) {
  for (const std::int64_t divisor :
       {std::int64_t{1}, std::int64_t{2}, std::int64_t{3}, std::int64_t{7}, std::int64_t{64}, std::int64_t{641},
        std::int64_t{65535}, std::int64_t{65537}, kLimit / 2 - 1, kLimit / 2, kLimit / 2 + 1, kLimit - 1, kLimit,
        kLimit + 1, kLimit * 1000 + 17}) {
    const Divisor by(divisor);
    EXPECT_EQ(by.divisor(), divisor);
    // Around multiples of the divisor and the ends of the ranges, where a quotient that is rounded wrongly shows.
    for (const std::int64_t base : {std::int64_t{0}, divisor, 2 * divisor, (kLimit - 1) / divisor * divisor, kLimit,
                                    kLimit * 12345 / divisor * divisor}) {
      for (std::int64_t n = std::max<std::int64_t>(0, base - 2); n <= base + 2; ++n) {
        EXPECT_EQ(by.quotient(n), n / divisor) << n << " / " << divisor;
      }
    }
  }
}

TEST(Divisor, CutsTheRemainderOff) {
  const Divisor by(10);
  std::int64_t n = 1234;
  EXPECT_EQ(by.cut(n), 4);
  EXPECT_EQ(n, 123);
}

TEST(Divisor, OfNothingStandsForOne) {
  EXPECT_EQ(Divisor(0).quotient(5), 5);
  EXPECT_EQ(Divisor().quotient(5), 5);
}

}  // namespace
}  // namespace sectionflow::gpu
