#include "graph/initializer.h"

#include <cmath>

#include "graph/ops/basic.h"
#include "graph/ops/random.h"

namespace sectionflow {
namespace {

// A normal distribution cut at two standard deviations keeps this share of its standard deviation.
constexpr double kTruncatedStddev = 0.87962566103423978;

}  // namespace

Initializer zeros() {
  return constant_initializer(0);
}
Initializer ones() {
  return constant_initializer(1);
}

Initializer constant_initializer(double value) {
  return [value](const InitializerRequest& r) { return fill(r.graph, r.shape, value, Dtype::f32, "initial_value"); };
}

Initializer truncated_normal_initializer(float stddev) {
  return [stddev](const InitializerRequest& r) {
    return truncated_normal(r.graph, r.shape, {.stddev = stddev}, "initial_value");
  };
}

Initializer he_normal() {
  return [](const InitializerRequest& r) {
    const double stddev = std::sqrt(2.0 / r.fan_in) / kTruncatedStddev;
    return truncated_normal(r.graph, r.shape, {.stddev = static_cast<float>(stddev)}, "initial_value");
  };
}

Initializer glorot_uniform() {
  return [](const InitializerRequest& r) {
    const float limit = static_cast<float>(std::sqrt(6.0 / (r.fan_in + r.fan_out)));
    return random_uniform(r.graph, r.shape, {.low = -limit, .high = limit}, "initial_value");
  };
}

}  // namespace sectionflow
