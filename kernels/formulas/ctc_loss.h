#pragma once

#include "base/host_device.h"
#include "kernels/vector_math.h"

namespace sectionflow::formulas {

/// The logarithm of a state that is not reached: finite, so that differences of two are no NaN, and below all others,
/// also when a row has been shifted.
inline constexpr float kCtcNever = -1e30F;
SF_HOST_DEVICE inline bool ctc_is_never(float log_p) {
  return log_p < 0.5F * kCtcNever;
}

SF_HOST_DEVICE inline float ctc_log_p(float x, float shift, float log_sum) {
  return (x - shift) - log_sum;
}

/// The logarithm of the sum of three that are given as logarithms.
SF_HOST_DEVICE inline float ctc_sum(float a, float b, float c) {
  const float larger = b > a ? b : a, largest = c > larger ? c : larger;
  return largest + vector_math::log(vector_math::exp(a - largest) + vector_math::exp(b - largest) +
                                    vector_math::exp(c - largest));
}
/// A product of two, which is never less than never. NaN passes.
SF_HOST_DEVICE inline float ctc_product(float a, float b) {
  const float product = a + b;
  return vector_math::select(product < kCtcNever, kCtcNever, product);
}

}  // namespace sectionflow::formulas
