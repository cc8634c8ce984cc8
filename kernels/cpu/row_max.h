#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace sectionflow {

/// The largest of `count` elements, passing over NaN; -infinity where there is none.
inline float row_max(const float* x, std::int64_t count) {
  constexpr std::int64_t kLanes = 16;
  float lanes[kLanes];
  std::fill(lanes, lanes + kLanes, -std::numeric_limits<float>::infinity());
  const std::int64_t whole = count / kLanes * kLanes;
  for (std::int64_t i = 0; i < whole; i += kLanes) {
#pragma omp simd
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      lanes[lane] = x[i + lane] > lanes[lane] ? x[i + lane] : lanes[lane];
    }
  }
  for (std::int64_t i = whole; i < count; ++i) lanes[0] = std::max(lanes[0], x[i]);
  return *std::max_element(lanes, lanes + kLanes);
}

}  // namespace sectionflow
