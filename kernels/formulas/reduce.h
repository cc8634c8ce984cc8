#pragma once

#include <cstdint>
#include <limits>

#include "base/host_device.h"
#include "kernels/vector_math.h"

/// What reductions do with elements, shared by every device. A reducer has the type `Accumulator` and the functions
/// `start()`, `term(x, result)` and `combine(accumulator, accumulator or term)`. The formulas behind them follow.
namespace sectionflow::formulas {

/// Sums in double: a plain sum of f32 in f32 lanes would lose digits on long axes, and the loop waits for memory
/// anyway.
struct SumReducer {
  using Accumulator = double;
  SF_HOST_DEVICE static double start() { return 0; }
  SF_HOST_DEVICE static double term(float x, std::int64_t) { return x; }
  SF_HOST_DEVICE static double combine(double a, double b) { return a + b; }
};

/// The largest; a NaN counts as largest.
struct MaxReducer {
  using Accumulator = float;
  SF_HOST_DEVICE static float start() { return -std::numeric_limits<float>::infinity(); }
  SF_HOST_DEVICE static float term(float x, std::int64_t) { return x; }
  // One comparison by one, since a branch on both would keep loops out of vectors; and by bits, since an operation that
  // takes the larger gives other zeros than a comparison where denormal numbers count as zero.
  SF_HOST_DEVICE static float combine(float a, float b) {
    return vector_math::select(b != b, b, vector_math::select(b > a, b, a));
  }
};

/// The smallest; a NaN counts as smallest.
struct MinReducer {
  using Accumulator = float;
  SF_HOST_DEVICE static float start() { return std::numeric_limits<float>::infinity(); }
  SF_HOST_DEVICE static float term(float x, std::int64_t) { return x; }
  SF_HOST_DEVICE static float combine(float a, float b) {
    return vector_math::select(b != b, b, vector_math::select(b < a, b, a));
  }
};

/// Squares in double, where that of an f32 number neither overflows nor vanishes.
struct SquareReducer {
  using Accumulator = double;
  SF_HOST_DEVICE static double start() { return 0; }
  SF_HOST_DEVICE static double term(float x, std::int64_t) { return static_cast<double>(x) * static_cast<double>(x); }
  SF_HOST_DEVICE static double combine(double a, double b) { return a + b; }
};

/// Whether x is the maximum, or minimum, y: a NaN among the elements is both, hence equal to it.
SF_HOST_DEVICE inline bool is_chosen(float x, float y) {
  return x == y || (x != x && y != y);
}

/// Counts the elements that are the maximum, or minimum, of theirs, which is stored as T.
template <class T>
struct ChosenReducer {
  using Accumulator = double;
  const T* y;
  SF_HOST_DEVICE static double start() { return 0; }
  SF_HOST_DEVICE double term(float x, std::int64_t result) const { return is_chosen(x, y[result]) ? 1.0 : 0.0; }
  SF_HOST_DEVICE static double combine(double a, double b) { return a + b; }
};

/// The gradient of an element with respect to a maximum, or minimum, in which all that equal it have the same share.
struct ShareOfChosen {
  SF_HOST_DEVICE float operator()(float x, float chosen, float share) const {
    return is_chosen(x, chosen) ? share : 0.0F;
  }
};

struct DivideBy {
  float divisor;
  SF_HOST_DEVICE float operator()(float x) const { return x / divisor; }
};

struct GlobalNormGrad {
  SF_HOST_DEVICE float operator()(float dy, float norm) const { return norm == 0 ? 0.0F : dy / norm; }
};

struct ClipScale {
  float max_norm;
  SF_HOST_DEVICE float operator()(float norm) const {
    // A finite norm minus itself is 0.
    if (norm - norm != 0.0F) return std::numeric_limits<float>::quiet_NaN();
    return max_norm / (norm < max_norm ? max_norm : norm);
  }
};

}  // namespace sectionflow::formulas
