#pragma once

#include <cstdint>

#include "base/host_device.h"
#include "kernels/vector_math.h"

namespace sectionflow::formulas {

/// The numbers of a row that both passes share: softmax(x)_c = exp(x_c - shift) / exp(log_sum).
struct EntropyRow {
  float shift, log_sum;
};

/// 0 whatever x is, where q is 0: a class that does not count costs nothing.
SF_HOST_DEVICE inline float weighted(float q, float x) {
  return vector_math::select(q == 0.0F, 0.0F, q * x);
}

/// What a class and its probability p_c count: q_c = w_c ((1 - s) p_c + s / C). A small value, which loops copy: the
/// compiler then knows that it does not change below them.
template <bool kHasWeights>
struct ClassCounts {
  const float* weights;  // [C]
  float kept, spread;    // 1 - s, s / C

  SF_HOST_DEVICE float weight(std::int64_t c) const {
    if constexpr (kHasWeights) {
      return weights[c];
    } else {
      return 1.0F;
    }
  }
  SF_HOST_DEVICE float of_probability(const float* p, std::int64_t c) const {
    return weight(c) * (kept * p[c] + spread);
  }
  /// The gradient of x_c, for a loss of gradient 1, where labels are classes, but for the label's own part of it.
  /// `scale`: sum_k q_k / exp(log_sum).
  SF_HOST_DEVICE float slope(float x, float shift, float scale, std::int64_t c) const {
    return scale * vector_math::exp(x - shift) - spread * weight(c);
  }
  /// The same, whole, where labels are the probabilities p.
  SF_HOST_DEVICE float slope_of_probability(float x, float shift, float scale, const float* p, std::int64_t c) const {
    return scale * vector_math::exp(x - shift) - of_probability(p, c);
  }
};

}  // namespace sectionflow::formulas
