#pragma once

#include "examples/models/image_model.h"

namespace sectionflow {

/// How the decoder gets back to a higher resolution.
enum class UpSampling {
  transposed_convolution,  ///< 2x2 with stride 2, to half the channels
  resize                   ///< bilinear, channels as they are; in two dimensions alone
};

struct UnetOptions {
  int dimensions = 2;  ///< 2: images [N, H, W, C]; 3: volumes [N, D, H, W, C]
  std::int64_t classes = 2;
  std::int64_t width = 64;  ///< channels at full resolution, doubled at each level below
  int depth = 4;            ///< how often the resolution is halved; image sizes are multiples of 2^depth
  UpSampling up_sampling = UpSampling::transposed_convolution;
  float decay = 0.9F;  ///< of the moving averages
};

/// Classifies each pixel: an encoder of double 3x3 convolutions with batch norm and max pooling, and a decoder that
/// reads the encoder's result of its resolution beside its own. The image keeps its size.
/// Natural blocks: the levels, down and up; their skip connections cross all sections between.
/// Throws: ArgumentError for other dimensions, and resize in 3-D. Source: Ronneberger et al. 2015; Cicek et al. 2016.
ImageNetwork unet(const UnetOptions& options = {});

}  // namespace sectionflow
