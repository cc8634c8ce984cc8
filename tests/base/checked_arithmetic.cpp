#include "base/checked_arithmetic.h"

#include <gtest/gtest.h>

#include <limits>

namespace sectionflow {
namespace {

constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kSmallest = std::numeric_limits<std::int64_t>::min();

TEST(CheckedArithmetic, AddRefusesOverflow) {
  EXPECT_EQ(checked_add(kLargest, 0), kLargest);
  EXPECT_EQ(checked_add(kLargest, -1), kLargest - 1);
  EXPECT_EQ(checked_add(kLargest, kSmallest), -1);
  EXPECT_THROW(checked_add(kLargest, 1), ShapeError);
  EXPECT_THROW(checked_add(kSmallest, -1), ShapeError);
}

TEST(CheckedArithmetic, MultiplyRefusesOverflowAndNegativeFactors) {
  EXPECT_EQ(checked_multiply(kLargest, 1), kLargest);
  EXPECT_EQ(checked_multiply(0, kLargest), 0);
  EXPECT_THROW(checked_multiply(kLargest / 2 + 1, 2), ShapeError);
  EXPECT_THROW(checked_multiply(-1, 2), ShapeError);
  EXPECT_THROW(checked_multiply(2, -1), ShapeError);
}

}  // namespace
}  // namespace sectionflow
