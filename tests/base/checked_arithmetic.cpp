#include "base/checked_arithmetic.h"

#include <gtest/gtest.h>

#include <limits>

namespace sectionflow {
namespace {

constexpr std::int64_t kInt64Max = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kInt64Min = std::numeric_limits<std::int64_t>::min();

TEST(CheckedArithmetic, AddRefusesOverflow) {
  EXPECT_EQ(checked_add(kInt64Max, 0), kInt64Max);
  EXPECT_EQ(checked_add(kInt64Max, -1), kInt64Max - 1);
  EXPECT_EQ(checked_add(kInt64Max, kInt64Min), -1);
  EXPECT_THROW(checked_add(kInt64Max, 1), ShapeError);
  EXPECT_THROW(checked_add(kInt64Min, -1), ShapeError);
}

TEST(CheckedArithmetic, MultiplyRefusesOverflowAndNegativeFactors) {
  EXPECT_EQ(checked_multiply(kInt64Max, 1), kInt64Max);
  EXPECT_EQ(checked_multiply(0, kInt64Max), 0);
  EXPECT_THROW(checked_multiply(kInt64Max / 2 + 1, 2), ShapeError);
  EXPECT_THROW(checked_multiply(-1, 2), ShapeError);
  EXPECT_THROW(checked_multiply(2, -1), ShapeError);
}

}  // namespace
}  // namespace sectionflow
