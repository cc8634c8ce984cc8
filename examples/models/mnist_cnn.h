#pragma once

#include "examples/models/image_model.h"

namespace sectionflow {

struct MnistCnnOptions {
  std::int64_t classes = 10;
  std::int64_t width = 32;  ///< filters of the first convolution; the second has twice as many
  std::int64_t units = 1024;
  float dropout = 0.5F;
};

/// The convolutional network of beginners' tutorials: twice a 5x5 convolution with relu and 2x2 max pooling, a dense
/// layer with relu and dropout, and a dense one. Natural blocks: both convolutions, and the dense part.
ImageNetwork mnist_cnn(const MnistCnnOptions& options = {});

}  // namespace sectionflow
