#pragma once

#include "graph/ops/arithmetic.h"

namespace sectionflow {

/// A gradient with the shape of the broadcast, summed to the shape of the input that was broadcast, if it was.
inline Value like_input(Value gradient, Value input) {
  const bool same = gradient.shape() == input.shape() && input.shape().is_static();
  return same || gradient.shape().rank() == 0 ? gradient : reduce_to_like(gradient, input);
}

}  // namespace sectionflow
