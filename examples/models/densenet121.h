#pragma once

#include "examples/models/image_model.h"

namespace sectionflow {

struct Densenet121Options {
  std::int64_t classes = 1000;
  std::int64_t growth = 32;  ///< channels that each layer adds; the stem has twice as many
  float decay = 0.9F;        ///< of the moving averages
};

/// Four dense stages of 6, 12, 24 and 16 layers, each of which reads what all before it in the stage have made, with
/// transitions that halve channels, height and width. Natural blocks: the layers; the stem goes with the first, a
/// transition with the layer before it, the head with the last. Source: Huang et al. 2017, DenseNet-BC.
ImageNetwork densenet121(const Densenet121Options& options = {});

}  // namespace sectionflow
