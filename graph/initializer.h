#pragma once

#include <functional>

#include "base/export.h"
#include "graph/graph.h"

namespace SF_API sectionflow {

/// Makes the initial value of a parameter from its shape. `fan_in` is the number of inputs that one output sums over,
/// `fan_out` the number of outputs that one input feeds.
struct InitializerRequest {
  Graph& graph;
  Shape shape;
  double fan_in = 1;
  double fan_out = 1;
};
using Initializer = std::function<Value(const InitializerRequest&)>;

/// Every element 0.
Initializer zeros();
/// Every element 1.
Initializer ones();
/// Every element `value`.
Initializer constant_initializer(double value);
/// Truncated normal numbers (see graph/ops/random.h) with mean 0.
Initializer truncated_normal_initializer(float stddev);
/// Truncated normal numbers whose variance, after truncation, is 2 / fan_in. Source: He et al. 2015.
Initializer he_normal();
/// Uniform numbers in +-sqrt(6 / (fan_in + fan_out)). Source: Glorot and Bengio 2010.
Initializer glorot_uniform();

}  // namespace sectionflow
