#include "base/histogram.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace sectionflow {
namespace {

constexpr double kLargest = std::numeric_limits<double>::max();

std::vector<double> make_limits() {
  std::vector<double> positive;
  for (double limit = 1e-12; limit < 1e20; limit *= 1.1) positive.push_back(limit);
  positive.push_back(kLargest);
  std::vector<double> limits;
  for (auto limit = positive.rbegin(); limit != positive.rend(); ++limit) limits.push_back(-*limit);
  limits.push_back(0.0);
  limits.insert(limits.end(), positive.begin(), positive.end());
  return limits;
}

/// Writes counts of all limits with each run of empty buckets as one: most of the 1,500 buckets are empty.
void keep_filled_buckets(const std::vector<double>& limits, const std::vector<double>& counts, Histogram& histogram) {
  for (std::size_t i = 0; i < limits.size(); ++i) {
    const bool next_is_empty_too = counts[i] == 0 && i + 1 < limits.size() && counts[i + 1] == 0;
    if (next_is_empty_too) continue;
    histogram.bucket_limits.push_back(limits[i]);
    histogram.bucket_counts.push_back(counts[i]);
  }
}

}  // namespace

Histogram histogram_of(std::span<const float> values) {
  static const std::vector<double> limits = make_limits();
  std::vector<double> counts(limits.size(), 0.0);
  Histogram histogram;
  histogram.min = kLargest;
  histogram.max = -kLargest;
  for (const float value : values) {
    if (!std::isfinite(value)) {
      ++(std::isnan(value) ? histogram.num_nan : histogram.num_infinite);
      continue;
    }
    const double x = value;
    histogram.min = std::min(histogram.min, x);
    histogram.max = std::max(histogram.max, x);
    histogram.sum += x;
    histogram.sum_squares += x * x;
    ++histogram.num;
    ++counts[static_cast<std::size_t>(std::lower_bound(limits.begin(), limits.end(), x) - limits.begin())];
  }
  if (histogram.num == 0) histogram.min = histogram.max = 0;
  keep_filled_buckets(limits, counts, histogram);
  return histogram;
}

}  // namespace sectionflow
