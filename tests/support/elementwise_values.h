#pragma once

#include <vector>

#include "graph/ops/arithmetic.h"
#include "graph/ops/softmax.h"
#include "graph/ops/unary.h"

namespace sectionflow::testing_support {

/// What users compute of one element and of two, and softmax: x and y of one shape, floats.
inline std::vector<Value> elementwise_values(Value x, Value y) {
  return {expm1(x),       log1p(x),      abs(x),  sin(x),   cos(x),  erf(x),        softplus(x),   mish(x),
          hard_swish(x),  leaky_relu(x), elu(x),  relu(x),  tanh(x), sigmoid(x),    silu(x),       gelu(x),
          neg(x),         square(x),     sqrt(x), rsqrt(x), exp(x),  log(x),        softmax(x),    log_softmax(x),
          clip(x, -1, 2), x + y,         x - y,   x * y,    x / y,   maximum(x, y), minimum(x, y), pow(x, y)};
}

}  // namespace sectionflow::testing_support
