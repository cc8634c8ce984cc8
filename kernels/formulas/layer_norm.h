#pragma once

#include <cmath>

#include "base/host_device.h"

namespace sectionflow {

// Positions of the gradient's inputs; those of rms_norm have no mean.
namespace layer_norm_grad_input {
enum { dy, x, scale, mean, rstd };
}

namespace formulas {

// rms_norm is layer_norm of rows whose mean is taken to be 0, without a shift.

/// From the sum of a row's squared distances from its mean.
SF_HOST_DEVICE inline float layer_norm_rstd(double squares, double count, float epsilon) {
  return static_cast<float>(1.0 / std::sqrt(squares / count + static_cast<double>(epsilon)));
}

SF_HOST_DEVICE inline float layer_normalized(float x, float mean, float rstd, float scale, float shift) {
  return (x - mean) * rstd * scale + shift;
}

/// The gradient of an element (of rms_norm, mean and g_mean are 0), with n = (x - mean) rstd and g = dy scale.
struct LayerNormGradient {
  float mean, rstd;  // of the row

  SF_HOST_DEVICE float n(float x) const { return (x - mean) * rstd; }
  SF_HOST_DEVICE float g(float dy, float scale) const { return dy * scale; }
  SF_HOST_DEVICE float gn(float dy, float scale, float x) const { return dy * scale * n(x); }
  /// rstd (g - mean of g - n mean of g n).
  SF_HOST_DEVICE float dx(float dy, float scale, float x, float g_mean, float gn_mean) const {
    return rstd * (g(dy, scale) - g_mean - n(x) * gn_mean);
  }
};

}  // namespace formulas
}  // namespace sectionflow
