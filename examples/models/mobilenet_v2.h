#pragma once

#include "examples/models/image_model.h"

namespace sectionflow {

struct MobilenetV2Options {
  std::int64_t classes = 1000;
  std::int64_t width = 32;  ///< channels of the stem; all others follow in proportion, rounded to multiples of 8
  float dropout = 0.2F;     ///< before the last layer
  float decay = 0.9F;       ///< of the moving averages
};

/// Inverted residuals: 1x1 expansion, 3x3 depthwise convolution, 1x1 projection without activation; relu6 elsewhere.
/// Natural blocks: the inverted residuals; the stem goes with the first, the head with the last.
/// Source: Sandler et al. 2018.
ImageNetwork mobilenet_v2(const MobilenetV2Options& options = {});

}  // namespace sectionflow
