// The row of numbers that knows its largest, beside one that looks at all of them.

#include "schedule/range_max.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace sectionflow {
namespace {

/// As RangeMax says it, number by number.
int leftmost_of_the_largest(const std::vector<std::int64_t>& row, int first, int last) {
  return static_cast<int>(std::max_element(row.begin() + first, row.begin() + last + 1) - row.begin());
}

TEST(RangeMax, TellsWhatEveryNumberSaysAfterRandomSums) {
  for (int length : {1, 2, 31, 32, 33, 64, 65, 700}) {
    const auto seed = static_cast<std::uint32_t>(length);
    SCOPED_TRACE(::testing::Message() << "length and seed " << length);
    std::mt19937 random(seed);
    const auto below = [&](int bound) { return static_cast<int>(random() % static_cast<std::uint32_t>(bound)); };
    std::vector<std::int64_t> row(static_cast<std::size_t>(length));
    for (auto& number : row) number = below(4);  // many are equal
    RangeMax maxima(row);
    for (int round = 0; round < 500; ++round) {
      const int first = below(length), last = first + below(length - first);
      ASSERT_EQ(maxima.position_of_max(first, last), leftmost_of_the_largest(row, first, last)) << round;
      ASSERT_EQ(maxima.max(), *std::max_element(row.begin(), row.end())) << round;
      const int amount = below(3);
      maxima.add(first, last, amount);
      for (int i = first; i <= last; ++i) row[static_cast<std::size_t>(i)] += amount;
    }
  }
}

TEST(RangeMax, OfAWholeRowOfZerosIsTheFirst) {
  const RangeMax maxima(std::vector<std::int64_t>(100, 0));
  EXPECT_EQ(maxima.max(), 0);
  EXPECT_EQ(maxima.position_of_max(0, 99), 0);
  EXPECT_EQ(maxima.position_of_max(40, 99), 40);
}

}  // namespace
}  // namespace sectionflow
