#pragma once

#include "examples/models/image_model.h"

namespace sectionflow {

struct Vgg16Options {
  std::int64_t classes = 1000;
  std::int64_t width = 64;    ///< filters of the first stage; later ones have 2, 4, 8 and 8 times as many
  std::int64_t units = 4096;  ///< of both hidden dense layers
  bool batch_norm = false;    ///< behind each convolution
  float dropout = 0.5F;       ///< behind each hidden dense layer
  float decay = 0.9F;         ///< of the moving averages
};

/// Thirteen 3x3 convolutions in five stages, each ended by 2x2 max pooling, then three dense layers. Images have a
/// height and width of 32 at least. Natural blocks: the convolutions, and the dense part.
/// Source: Simonyan and Zisserman 2015, configuration D.
ImageNetwork vgg16(const Vgg16Options& options = {});

}  // namespace sectionflow
