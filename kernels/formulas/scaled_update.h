#pragma once

#include <cmath>
#include <cstdint>

#include "base/host_device.h"
#include "graph/ops/scaled_update.h"
#include "kernels/formulas/update.h"

/// What updates do whose step is scaled by norms of the whole variable, shared by every device: a direction an element,
/// and then, from the sums of squares of variable and directions, how far it goes.
namespace sectionflow::formulas {

/// Sums of squares over a variable, or a part of it.
struct SquareSums {
  double variable = 0, direction = 0;
  SF_HOST_DEVICE SquareSums operator+(const SquareSums& other) const {
    return {variable + other.variable, direction + other.direction};
  }
};

/// kept variable - rate direction.
struct ScaledDirection {
  float kept = 1, rate = 0;
  SF_HOST_DEVICE float operator()(float variable, float direction) const { return kept * variable - rate * direction; }
};

/// rate m / (sqrt(v) + epsilon) + weight_decay variable, with Adam's corrections in rate and epsilon.
struct LambDirection {
  Average first, second;
  float rate, epsilon, weight_decay;
  SF_HOST_DEVICE float operator()(float variable, float m, float root) const {
    return rate * m / (root + epsilon) + weight_decay * variable;
  }
};
SF_HOST_DEVICE inline LambDirection lamb_direction(const LambOptions& options, std::int64_t steps) {
  const double root = std::sqrt(correction(options.beta2, steps));
  return {{options.beta1, 1.0F - options.beta1},
          {options.beta2, 1.0F - options.beta2},
          static_cast<float>(root / correction(options.beta1, steps)),
          static_cast<float>(options.epsilon * root),
          options.weight_decay};
}
SF_HOST_DEVICE inline ScaledDirection lamb_step(const SquareSums& sums, float learning_rate) {
  const bool scales = sums.variable > 0 && sums.direction > 0;
  const double ratio = scales ? std::sqrt(sums.variable / sums.direction) : 1;
  return {1, static_cast<float>(learning_rate * ratio)};
}

/// The larger of both; NaN where x is.
template <class T>
SF_HOST_DEVICE T at_least(T x, T least) {
  return x < least ? least : x;
}

/// The gradient by the root of its estimated square.
struct AdafactorDirection {
  float least_square;
  SF_HOST_DEVICE float operator()(float gradient, float square) const {
    return gradient / std::sqrt(at_least(square, least_square));
  }
};
/// In the place of `squares`, what an average takes: t^-decay_exponent, all of it in the first step.
SF_HOST_DEVICE inline Average adafactor_average(const AdafactorOptions& options, std::int64_t steps) {
  const double rest = std::pow(static_cast<double>(steps) + 1, -static_cast<double>(options.decay_exponent));
  return {static_cast<float>(1 - rest), static_cast<float>(rest)};
}
SF_HOST_DEVICE inline ScaledDirection adafactor_step(const AdafactorOptions& options, const SquareSums& sums,
                                                     std::int64_t count, float learning_rate, std::int64_t steps) {
  const double elements = static_cast<double>(count);
  double rate = learning_rate;
  if (options.relative_step) {
    const double warm = 1 / std::sqrt(static_cast<double>(steps) + 1);
    rate = at_least(std::sqrt(sums.variable / elements), static_cast<double>(options.least_scale)) *
           (warm < rate ? warm : rate);
  }
  const double too_long = std::sqrt(sums.direction / elements) / options.clip;
  return {kept_of(learning_rate, options.weight_decay), static_cast<float>(rate / at_least(too_long, 1.0))};
}

}  // namespace sectionflow::formulas
