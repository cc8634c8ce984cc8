#pragma once

#include "examples/models/image_model.h"

namespace sectionflow {

struct VggOptions {
  int depth = 16;  ///< 16 or 19: layers with weights, three of which are dense
  std::int64_t classes = 1000;
  std::int64_t width = 64;    ///< filters of the first stage; later ones have 2, 4, 8 and 8 times as many
  std::int64_t units = 4096;  ///< of both hidden dense layers
  bool batch_norm = false;    ///< behind each convolution
  float dropout = 0.5F;       ///< behind each hidden dense layer
  float decay = 0.9F;         ///< of the moving averages
};

/// 3x3 convolutions in five stages, each ended by 2x2 max pooling, then three dense layers. Images have a height and
/// width of 32 at least; the first dense layer reads every pixel of the last stage, and so grows with them. Natural
/// blocks: the convolutions, and the dense part.
/// Throws: ArgumentError for another depth. Source: Simonyan and Zisserman 2015, configurations D and E.
ImageNetwork vgg(const VggOptions& options = {});

}  // namespace sectionflow
