#pragma once

#include <limits>

#include "base/host_device.h"

/// Arithmetic of norms, shared by every device.
namespace sectionflow::formulas {

struct GlobalNormGrad {
  SF_HOST_DEVICE float operator()(float dy, float norm) const { return norm == 0 ? 0.0F : dy / norm; }
};

struct ClipScale {
  float max_norm;
  SF_HOST_DEVICE float operator()(float norm) const {
    // A finite norm minus itself is 0.
    if (norm - norm != 0.0F) return std::numeric_limits<float>::quiet_NaN();
    return max_norm / (norm < max_norm ? max_norm : norm);
  }
};

}  // namespace sectionflow::formulas
