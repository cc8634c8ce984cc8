#include "base/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/random.h"

namespace sectionflow {
namespace {

constexpr double kLargestDouble = std::numeric_limits<double>::max();

/// The values that lie in (limit[i - 1], limit[i]], counted one bucket at a time.
std::vector<double> counts_by_definition(const Histogram& histogram, const std::vector<float>& values) {
  std::vector<double> counts;
  for (std::size_t i = 0; i < histogram.bucket_limits.size(); ++i) {
    const double below = i == 0 ? -std::numeric_limits<double>::infinity() : histogram.bucket_limits[i - 1];
    counts.push_back(static_cast<double>(std::count_if(values.begin(), values.end(), [&](float value) {
      return value > below && value <= histogram.bucket_limits[i];
    })));
  }
  return counts;
}

TEST(Histogram, MomentsAreThoseOfTheValues) {
  const Histogram histogram = histogram_of(std::vector<float>{-2, 0.5, 3});
  EXPECT_EQ(histogram.min, -2);
  EXPECT_EQ(histogram.max, 3);
  EXPECT_EQ(histogram.num, 3);
  EXPECT_EQ(histogram.sum, 1.5);
  EXPECT_EQ(histogram.sum_squares, 13.25);
}

TEST(Histogram, BucketsCountTheValuesUpToTheirLimit) {
  std::vector<float> values;
  for (std::uint64_t block = 0; block < 500; ++block) {
    const auto words = random_words({.seed = 3}, block);
    for (float x : normals_from_words(words[0], words[1])) {
      values.push_back(x);
      values.push_back(x * 1e-8F);
      values.push_back(x * 1e30F);
    }
  }
  values.insert(values.end(), {0.0F, -0.0F, 1e-12F, -1e-12F, 1e-40F, -1e-40F, std::numeric_limits<float>::max(),
                               std::numeric_limits<float>::lowest()});
  const Histogram histogram = histogram_of(values);
  EXPECT_EQ(histogram.num, static_cast<std::int64_t>(values.size()));
  EXPECT_EQ(histogram.bucket_counts, counts_by_definition(histogram, values));
  EXPECT_EQ(std::accumulate(histogram.bucket_counts.begin(), histogram.bucket_counts.end(), 0.0), histogram.num);
  EXPECT_TRUE(std::is_sorted(histogram.bucket_limits.begin(), histogram.bucket_limits.end()));
  EXPECT_EQ(histogram.bucket_limits.back(), kLargestDouble);
}

TEST(Histogram, LimitsGrowByATenthAndAreMirrored) {
  const Histogram positive = histogram_of(std::vector<float>{1.0F});
  const Histogram negative = histogram_of(std::vector<float>{-1.0F});
  ASSERT_EQ(positive.bucket_counts, (std::vector<double>{0, 1, 0}));
  ASSERT_EQ(negative.bucket_counts, (std::vector<double>{0, 1, 0}));
  EXPECT_NEAR(positive.bucket_limits[1] / positive.bucket_limits[0], 1.1, 1e-12);
  const double power = std::log(positive.bucket_limits[1] / 1e-12) / std::log(1.1);
  EXPECT_NEAR(power, std::round(power), 1e-9);
  EXPECT_EQ(negative.bucket_limits[1], -positive.bucket_limits[0]);
}

TEST(Histogram, ZeroHasABucketOfItsOwn) {
  const Histogram histogram = histogram_of(std::vector<float>(5, 0.0F));
  EXPECT_EQ(histogram.bucket_limits, (std::vector<double>{-1e-12, 0, kLargestDouble}));
  EXPECT_EQ(histogram.bucket_counts, (std::vector<double>{0, 5, 0}));
}

TEST(Histogram, ValuesThatAreNotFiniteAreCountedApart) {
  const float infinity = std::numeric_limits<float>::infinity();
  const Histogram histogram = histogram_of(std::vector<float>{1, NAN, infinity, -infinity, -NAN, 2});
  EXPECT_EQ(histogram.num, 2);
  EXPECT_EQ(histogram.num_nan, 2);
  EXPECT_EQ(histogram.num_infinite, 2);
  EXPECT_EQ(histogram.sum, 3);
  EXPECT_EQ(histogram.max, 2);
}

TEST(Histogram, WithoutFiniteValuesEverythingIsZero) {
  for (const std::vector<float>& values : {std::vector<float>{}, std::vector<float>{NAN}}) {
    const Histogram histogram = histogram_of(values);
    EXPECT_EQ(histogram.num, 0);
    EXPECT_EQ(histogram.min, 0);
    EXPECT_EQ(histogram.max, 0);
    EXPECT_EQ(histogram.bucket_limits, std::vector<double>{kLargestDouble});
    EXPECT_EQ(histogram.bucket_counts, std::vector<double>{0});
  }
}

}  // namespace
}  // namespace sectionflow
