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

namespace group_norm_grad_input {
enum { dy, x, scale, mean, rstd };
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

// dx, with factor = scale * rstd.

/// From the gradient `arrived` at y before relu, with the mean of dy, and x_factor = rstd^2 mean of dy (x - mean).
/// Source: Ioffe and Szegedy 2015, section 3, with the gradients through mean and variance gathered.
struct BatchNormDx {
  SF_HOST_DEVICE float operator()(float arrived, float x, float mean, float factor, float mean_dy,
                                  float x_factor) const {
    const float through_mean = arrived - mean_dy;
    const float through_variance = (x - mean) * x_factor;
    return factor * (through_mean - through_variance);
  }
};
/// With GroupNormTerms.
struct GroupNormDx {
  SF_HOST_DEVICE float operator()(float dy, float x, float mean, float factor, float offset, float x_factor) const {
    return dy * factor - offset - (x - mean) * x_factor;
  }
};

/// What the gradient of group_norm subtracts in a group.
struct GroupNormTerms {
  float offset;    // rstd * mean of dy * scale
  float x_factor;  // rstd^3 * mean of dy * scale * (x - mean)
};
/// From sums over the `count` elements of a group: of dy * scale, and of that times x - mean.
SF_HOST_DEVICE inline GroupNormTerms group_norm_terms(double dy_sum, double product_sum, double count, float rstd) {
  const double r = rstd;
  return {static_cast<float>(r * dy_sum / count), static_cast<float>(r * r * r * product_sum / count)};
}

}  // namespace formulas
}  // namespace sectionflow
