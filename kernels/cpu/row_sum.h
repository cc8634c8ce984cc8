#pragma once

#include <algorithm>
#include <cstdint>

namespace sectionflow {

/// The sum over i in [0, count) of term(i), a float, in an order that `count` alone decides: pieces of 4096 terms are
/// summed in 32 lanes of f32, lanes and pieces in double.
template <class Term>
double row_sum(std::int64_t count, const Term& term) {
  constexpr std::int64_t kLanes = 32, kPiece = 4096;
  double total = 0;
  for (std::int64_t first = 0; first < count; first += kPiece) {
    const std::int64_t end = std::min(count, first + kPiece);
    float lanes[kLanes] = {};
    std::int64_t i = first;
    for (; i + kLanes <= end; i += kLanes) {
#pragma omp simd
      for (std::int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] += term(i + lane);
    }
    for (std::int64_t lane = 0; i + lane < end; ++lane) lanes[lane] += term(i + lane);
    for (float lane : lanes) total += lane;
  }
  return total;
}

}  // namespace sectionflow
