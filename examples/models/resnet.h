#pragma once

#include "examples/models/image_model.h"

namespace sectionflow {

struct ResnetOptions {
  int depth = 50;  ///< 18, 34, 50, 101 or 152
  std::int64_t classes = 1000;
  std::int64_t width = 64;  ///< channels of the stem and the first stage, doubled from stage to stage
  float decay = 0.9F;       ///< of the moving averages
};

/// Residual networks with the strides of version 1.5 (in the 3x3 convolution of a bottleneck), as torchvision has them.
/// Natural blocks: the residual ones; the stem goes with the first, the head with the last.
/// Throws: ArgumentError for another depth. Source: He et al. 2016.
ImageNetwork resnet(const ResnetOptions& options = {});

}  // namespace sectionflow
