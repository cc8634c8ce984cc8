#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/export.h"

namespace SF_API sectionflow {

/// How the values of a tensor are distributed, in the form of a summary's HistogramProto.
///
/// Bucket i counts the values in (bucket_limits[i - 1], bucket_limits[i]]; the first bucket has no lower limit and the
/// last limit is the largest double. Limits are those of TensorBoard: 1e-12 times powers of 1.1, mirrored for negative
/// numbers, and 0. Each run of empty buckets is one bucket. Without any finite value all sums, min and max are 0.
struct Histogram {
  double min = 0;
  double max = 0;
  std::int64_t num = 0;  ///< finite values; everything but the two counts below speaks of these only
  double sum = 0;
  double sum_squares = 0;
  std::vector<double> bucket_limits;  // [B]
  std::vector<double> bucket_counts;  // [B]
  std::int64_t num_nan = 0;
  std::int64_t num_infinite = 0;
};

/// Counts the values; those that are not finite are counted apart, and stay out of minimum, maximum and sums.
Histogram histogram_of(std::span<const float> values);

}  // namespace sectionflow
