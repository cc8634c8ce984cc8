#pragma once

#include <cmath>
#include <cstdint>

#include "base/host_device.h"
#include "graph/ops/update.h"
#include "kernels/vector_math.h"

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

/// Lion's step, which moves a variable by the sign of a mixture of the average and the gradient.
struct LionStep {
  Average mixture, average;
  float rate;
  float kept = 1;  // of the variable
  SF_HOST_DEVICE float operator()(float variable, float m, float gradient) const {
    const float direction = mixture(m, gradient);
    // NaN stays: a variable is to show it.
    // Not by branches, which would keep the loop out of vectors.
    const float below = vector_math::select(direction < 0.0F, -1.0F, direction);
    const float sign = vector_math::select(direction > 0.0F, 1.0F, below);
    return kept * variable - rate * sign;
  }
};

/// What is kept of a variable that loses `weight_decay` times the learning rate of itself.
SF_HOST_DEVICE inline float kept_of(float learning_rate, float weight_decay) {
  return static_cast<float>(1 - static_cast<double>(learning_rate) * weight_decay);
}

SF_HOST_DEVICE inline LionStep lion_step(const LionOptions& options, float learning_rate) {
  return {{options.beta1, 1.0F - options.beta1},
          {options.beta2, 1.0F - options.beta2},
          learning_rate,
          kept_of(learning_rate, options.weight_decay)};
}

/// What one update adds to an average of weights.
struct WeightAverage {
  bool is_taken;  ///< whether the update counts
  bool is_first;  ///< the average begins with the variable as it is
  bool is_uniform;
  Average exponential;
  float num_taken;  ///< with this one

  SF_HOST_DEVICE float operator()(float average, float variable) const {
    if (is_first) return variable;
    return is_uniform ? average + (variable - average) / num_taken : exponential(average, variable);
  }
};

/// Of the update before which there have been `updates`. Until the first that is taken the average is the variable.
/// Source: torch.optim.swa_utils.AveragedModel.
SF_HOST_DEVICE inline WeightAverage weight_average(const WeightAverageOptions& options, std::int64_t updates) {
  const std::int64_t since = updates - options.start;
  const std::int64_t before = since < 0 ? 0 : since / options.every;
  return {since < 0 || since % options.every == 0,
          before == 0,
          options.kind == Averaging::uniform,
          {options.decay, 1.0F - options.decay},
          static_cast<float>(before + 1)};
}

/// A sum over micro-batches, which the first one begins.
struct Accumulated {
  bool is_first;
  SF_HOST_DEVICE float operator()(float sum, float x) const { return is_first ? x : sum + x; }
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
  return {static_cast<float>(learning_rate * root / correction(options.beta1, steps)),
          static_cast<float>(options.epsilon * root), kept_of(learning_rate, options.weight_decay)};
}

}  // namespace sectionflow::formulas
