#pragma once

#include <cmath>
#include <cstdint>

#include "base/host_device.h"
#include "graph/ops/update.h"

/// What updates of variables do with an element, shared by every device.
namespace sectionflow::formulas {

/// A running average, or sum: keep old + rest x.
struct Average {
  float keep, rest;
  SF_HOST_DEVICE float operator()(float old, float x) const { return keep * old + rest * x; }
};

/// variable - learning_rate direction.
struct Step {
  float learning_rate;
  SF_HOST_DEVICE float operator()(float variable, float direction) const {
    return variable - learning_rate * direction;
  }
};

/// The velocity, and the direction in which a variable moves by it.
struct Velocity {
  float momentum;
  SF_HOST_DEVICE float operator()(float velocity, float gradient) const { return momentum * velocity + gradient; }
  SF_HOST_DEVICE float ahead(float new_velocity, float gradient) const { return gradient + momentum * new_velocity; }
};

/// What all updates by a running scale do in the end: kept variable - rate direction / (root + epsilon), with the root
/// of the scale.
struct ScaledStep {
  float rate, epsilon;
  float kept = 1;  // of the variable
  SF_HOST_DEVICE float operator()(float variable, float direction, float root) const {
    return kept * variable - rate * direction / (root + epsilon);
  }
};

/// 1 - beta^t, with t = steps + 1. In double: of f32 numbers it would lose half its digits in the first steps.
SF_HOST_DEVICE inline double correction(float beta, std::int64_t steps) {
  return 1 - std::pow(static_cast<double>(beta), static_cast<double>(steps) + 1);
}

SF_HOST_DEVICE inline ScaledStep adam_step(const AdamOptions& options, float learning_rate, std::int64_t steps) {
  const double rate = std::sqrt(correction(options.beta2, steps)) / correction(options.beta1, steps);
  return {static_cast<float>(learning_rate * rate), options.epsilon};
}

/// Numerator and denominator of the formula are multiplied by the root of v's correction.
SF_HOST_DEVICE inline ScaledStep adam_step(const AdamWOptions& options, float learning_rate, std::int64_t steps) {
  const double root = std::sqrt(correction(options.beta2, steps));
  const double kept = 1 - static_cast<double>(learning_rate) * options.weight_decay;
  return {static_cast<float>(learning_rate * root / correction(options.beta1, steps)),
          static_cast<float>(options.epsilon * root), static_cast<float>(kept)};
}

}  // namespace sectionflow::formulas
