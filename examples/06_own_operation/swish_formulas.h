#pragma once

#include "kernels/vector_math.h"

/// The arithmetic of one element, for the CPU and for GPUs.
namespace acme {

struct Swish {
  float slope;
  SF_HOST_DEVICE float operator()(float x) const { return x * sectionflow::vector_math::sigmoid(slope * x); }
};

struct SwishGrad {
  float slope;
  SF_HOST_DEVICE float operator()(float dy, float x) const {
    const float s = sectionflow::vector_math::sigmoid(slope * x);
    return dy * (s + slope * x * s * (1.0F - s));
  }
};

}  // namespace acme
