#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace sectionflow {

/// The middle of the samples by size, of an even number the mean of the middle two. There must be one.
inline double median(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  const std::size_t middle = samples.size() / 2;
  return samples.size() % 2 == 1 ? samples[middle] : (samples[middle - 1] + samples[middle]) / 2;
}

}  // namespace sectionflow
