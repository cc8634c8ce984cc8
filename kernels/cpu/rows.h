#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "device/parallel.h"
#include "kernels/cpu/wide_vectors.h"
#include "kernels/stored_element.h"

namespace sectionflow {

/// `loop()` over rows of `length` elements: in wide vectors, if such rows fill one.
template <class Loop>
void in_vectors_of_rows(std::int64_t length, const Loop& loop) {
  constexpr std::int64_t kWideVector = 16;
  if (length >= kWideVector) {
    in_wide_vectors(loop);
  } else {
    loop();
  }
}

/// Calls `row(n)` for every n in [0, num_rows), on the compute team, in vectors. A row of `length` elements takes a few
/// exponentials an element: that is what decides how many rows are worth a second thread.
template <class Row>
void for_each_row(std::int64_t num_rows, std::int64_t length, const Row& row) {
  constexpr std::int64_t kElementsAThread = 4096;
  const std::int64_t grain = std::max<std::int64_t>(1, kElementsAThread / std::max<std::int64_t>(1, length));
  parallel_for(num_rows, grain, [&](std::int64_t begin, std::int64_t end) {
    in_vectors_of_rows(length, [&] {
      for (std::int64_t n = begin; n < end; ++n) row(n);
    });
  });
}

/// The largest of `count` elements, passing over NaN; -infinity where there is none.
template <class T>
float row_max(const T* x, std::int64_t count) {
  constexpr std::int64_t kLanes = 16;
  float lanes[kLanes];
  std::fill(lanes, lanes + kLanes, -std::numeric_limits<float>::infinity());
  const std::int64_t whole = count / kLanes * kLanes;
  for (std::int64_t i = 0; i < whole; i += kLanes) {
#pragma omp simd
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      const float value = x[i + lane];
      lanes[lane] = value > lanes[lane] ? value : lanes[lane];
    }
  }
  for (std::int64_t i = whole; i < count; ++i) lanes[0] = std::max(lanes[0], static_cast<float>(x[i]));
  if (whole == 0) return lanes[0];
  return *std::max_element(lanes, lanes + kLanes);
}

/// The sum over i in [0, count) of term(i), a float, in an order that `count` alone decides: pieces of 4096 terms are
/// summed in 32 lanes of f32, lanes and pieces in double. Where the terms are in the cache, `before(i, number)` may ask
/// for memory that is wanted after them; it is called before each so many terms.
template <class Term, class Before>
double row_sum(std::int64_t count, const Term& term, const Before& before) {
  constexpr std::int64_t kLanes = 32, kPiece = 4096;
  double total = 0;
  for (std::int64_t first = 0; first < count; first += kPiece) {
    const std::int64_t end = std::min(count, first + kPiece);
    float lanes[kLanes] = {};
    std::int64_t i = first;
    for (; i + kLanes <= end; i += kLanes) {
      before(i, kLanes);
#pragma omp simd
      for (std::int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] += term(i + lane);
    }
    for (std::int64_t lane = 0; i + lane < end; ++lane) lanes[lane] += term(i + lane);
    if (end - first >= kLanes) {
      for (const float lane : lanes) total += lane;
    } else {
      for (std::int64_t lane = 0; lane < end - first; ++lane) total += lanes[lane];  // the others are 0
    }
  }
  return total;
}
template <class Term>
double row_sum(std::int64_t count, const Term& term) {
  return row_sum(count, term, [](std::int64_t, std::int64_t) {});
}

/// `count` elements, stored in another type or in the same: bf16 is widened, f32 is rounded once.
template <class To, class From>
void convert_row(To* to, const From* from, std::int64_t count) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) to[i] = stored<To>(from[i]);
}

/// The same for rows of `length` elements, from where they lie `from_step` apart to where they lie `to_step` apart, on
/// the compute team.
template <class To, class From>
void convert_rows(To* to, std::int64_t to_step, const From* from, std::int64_t from_step, std::int64_t num_rows,
                  std::int64_t length) {
  const std::int64_t grain = std::max<std::int64_t>(1, kParallelGrain / std::max<std::int64_t>(1, length));
  parallel_for(num_rows, grain, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) convert_row(to + row * to_step, from + row * from_step, length);
  });
}

}  // namespace sectionflow
