#pragma once

#include <cmath>

#include "base/host_device.h"

namespace sectionflow {

// Positions of the inputs.
namespace batch_norm_input {
enum { x, scale, shift, running_mean, running_variance, is_training };
}
namespace batch_norm_grad_input {
enum { dy, x, scale, mean, variance, is_training, shift };  // the last with relu alone
}

namespace formulas {

SF_HOST_DEVICE inline float batch_norm_rstd(float variance, float epsilon) {
  return static_cast<float>(1.0 / std::sqrt(static_cast<double>(variance) + static_cast<double>(epsilon)));
}

/// What y is before relu, with factor = scale * rstd. The one place that says so: the gradient computes it again to
/// know the sign.
SF_HOST_DEVICE inline float batch_normalized(float x, float mean, float factor, float shift) {
  return (x - mean) * factor + shift;
}

/// The numbers of a channel that the last pass of the gradient reads.
struct BatchNormGradientFactors {
  float mean_dy;   // mean of dy
  float x_factor;  // rstd^2 * mean of dy * (x - mean)
};

/// dx from the gradient `arrived` at y before relu.
/// Source: Ioffe and Szegedy 2015, section 3, with the gradients through mean and variance gathered.
SF_HOST_DEVICE inline float batch_norm_dx(float arrived, float x, float mean, float factor,
                                          BatchNormGradientFactors factors) {
  const float through_mean = arrived - factors.mean_dy;
  const float through_variance = (x - mean) * factors.x_factor;
  return factor * (through_mean - through_variance);
}

}  // namespace formulas
}  // namespace sectionflow
