#pragma once

#include "examples/models/image_model.h"

namespace sectionflow {

struct XceptionOptions {
  std::int64_t classes = 1000;
  std::int64_t width = 32;  ///< channels of the first convolution; all others follow in proportion, rounded down
  float decay = 0.9F;       ///< of the moving averages
};

/// Separable convolutions, 3x3 depthwise and then 1x1, in residual blocks; layers and paddings are those of Keras.
/// Images of 299x299 are its own, of 7x7 the smallest. Natural blocks: the stem's two convolutions, the twelve residual
/// blocks, and the last two separable convolutions with the head. Source: Chollet 2017.
ImageNetwork xception(const XceptionOptions& options = {});

}  // namespace sectionflow
