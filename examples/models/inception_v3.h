#pragma once

#include "examples/models/image_model.h"

namespace sectionflow {

struct InceptionV3Options {
  std::int64_t classes = 1000;
  std::int64_t width = 32;  ///< channels of the first convolution; all others follow in proportion, rounded down
  float dropout = 0.5F;     ///< before the last layer
  float decay = 0.9F;       ///< of the moving averages
};

/// Parallel branches of convolutions, large ones factored into rows and columns, with batch norm and relu behind each;
/// layers, paddings and constants are torchvision's. Images of 299x299 are its own, of 75x75 the smallest.
/// Natural blocks: the two parts of the stem, which end with its poolings, and the eleven modules; the head goes with
/// the last. The auxiliary head is apart: inception_v3_auxiliary_head. Source: Szegedy et al. 2016.
ImageNetwork inception_v3(const InceptionV3Options& options = {});

/// The classifier that torchvision trains beside the network's own, of images of 299x299 at least: ImageModelOptions
/// `.auxiliary_heads = {inception_v3_auxiliary_head(options)}`. Its loss counts four tenths.
AuxiliaryHead inception_v3_auxiliary_head(const InceptionV3Options& options = {});

}  // namespace sectionflow
