#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace sectionflow {

// Reductions of one row by one thread. Lanes stand side by side for the vector unit; which element goes to which lane
// follows from its place in the row alone.
inline constexpr std::int64_t kRowLanes = 16;

/// The largest of `count` elements, passing over NaN; -infinity where there is none.
inline float row_max(const float* x, std::int64_t count) {
  float lanes[kRowLanes];
  std::fill(lanes, lanes + kRowLanes, -std::numeric_limits<float>::infinity());
  const std::int64_t whole = count / kRowLanes * kRowLanes;
  for (std::int64_t i = 0; i < whole; i += kRowLanes) {
#pragma omp simd
    for (std::int64_t lane = 0; lane < kRowLanes; ++lane) {
      lanes[lane] = x[i + lane] > lanes[lane] ? x[i + lane] : lanes[lane];
    }
  }
  for (std::int64_t i = whole; i < count; ++i) lanes[0] = std::max(lanes[0], x[i]);
  return *std::max_element(lanes, lanes + kRowLanes);
}

/// The sum of term(i), a float, for i in [0, count), each called once. Short pieces are summed in f32, these in double:
/// as exact as a sum in double, for the terms of f32 that they are, at the speed of one in f32.
template <class Term>
double row_sum(std::int64_t count, const Term& term) {
  constexpr std::int64_t kPiece = 16 * kRowLanes;
  double total = 0;
  for (std::int64_t begin = 0; begin < count; begin += kPiece) {
    const std::int64_t length = std::min(kPiece, count - begin);
    const std::int64_t whole = begin + length / kRowLanes * kRowLanes;
    float lanes[kRowLanes] = {};
    for (std::int64_t i = begin; i < whole; i += kRowLanes) {
#pragma omp simd
      for (std::int64_t lane = 0; lane < kRowLanes; ++lane) lanes[lane] += term(i + lane);
    }
    for (std::int64_t i = whole; i < begin + length; ++i) lanes[i - whole] += term(i);
    double piece = 0;
    for (float lane : lanes) piece += lane;
    total += piece;
  }
  return total;
}

/// Rows of `length` elements that are worth a second thread where each takes a few exponentials.
inline std::int64_t row_grain(std::int64_t length) {
  constexpr std::int64_t kElementsAThread = 4096;
  return std::max<std::int64_t>(1, kElementsAThread / std::max<std::int64_t>(1, length));
}

}  // namespace sectionflow
