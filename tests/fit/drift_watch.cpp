// When executions have come to take longer than expected.

#include "fit/drift_watch.h"

#include <gtest/gtest.h>

namespace sectionflow {
namespace {

bool any_of(DriftWatch& watch, int times, double seconds, int in_a_row = 20) {
  bool is_too_long = false;
  for (int i = 0; i < times; ++i) is_too_long |= watch.add(seconds, in_a_row);
  return is_too_long;
}

TEST(DriftWatch, SeesTwentyInARowThatTakeOverATenthLongerThanPredicted) {
  DriftWatch watch = DriftWatch::by_prediction(1);
  EXPECT_FALSE(any_of(watch, DriftWatch::kNotCounted, 100)) << "the first few do not count";
  EXPECT_FALSE(any_of(watch, 1000, 1.1)) << "a tenth longer is not over a tenth longer";
  EXPECT_FALSE(any_of(watch, 19, 1.2));
  EXPECT_FALSE(any_of(watch, 1, 1.0)) << "the row ends";
  EXPECT_FALSE(any_of(watch, 19, 1.2));
  EXPECT_TRUE(watch.add(1.4, 20));
  EXPECT_DOUBLE_EQ(watch.measured_seconds(), (19 * 1.2 + 1.4) / 20);
  EXPECT_EQ(watch.expected_seconds(), 1);
}

TEST(DriftWatch, ExpectsTheMedianOfTheFirstWhereNothingElseIsKnown) {
  DriftWatch watch = DriftWatch::by_first();
  EXPECT_FALSE(any_of(watch, DriftWatch::kNotCounted, 100));
  EXPECT_FALSE(any_of(watch, DriftWatch::kFirst / 2, 50, 1)) << "what sets the measure is not measured by it";
  EXPECT_FALSE(any_of(watch, DriftWatch::kFirst - DriftWatch::kFirst / 2, 7, 1));
  EXPECT_EQ(watch.expected_seconds(), 7);
  EXPECT_FALSE(any_of(watch, 1000, 7.6));
  EXPECT_TRUE(any_of(watch, 20, 7.8));
}

TEST(DriftWatch, ExpectsNoLessOfTheFirstThanItIsTold) {
  DriftWatch watch = DriftWatch::by_first(5);
  EXPECT_FALSE(any_of(watch, DriftWatch::kNotCounted + DriftWatch::kFirst, 3));
  EXPECT_EQ(watch.expected_seconds(), 5);
  EXPECT_FALSE(any_of(watch, 100, 5.4));
  EXPECT_FALSE(any_of(watch, 39, 5.6, 40));
  EXPECT_TRUE(any_of(watch, 1, 5.6, 40));
}

}  // namespace
}  // namespace sectionflow
