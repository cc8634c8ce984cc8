#pragma once

#include "examples/models/image_model.h"

namespace sectionflow {

struct NasnetOptions {
  std::int64_t classes = 1000;
  std::int64_t width = 44;  ///< filters of the first cells, doubled at each reduction; the stem follows in proportion
  int cells = 4;            ///< normal cells before, between and after the two reductions
  float decay = 0.9F;       ///< of the moving averages
};

/// NASNet-A, `cells` @ 24 `width`: as it stands NASNet-A mobile, 4 @ 1056. Each cell reads the two before it. Layers
/// and paddings are those of Keras; images of 224x224 are its own. Natural blocks: the cells, of which the first two
/// are reductions of the stem; its convolution goes with the first, the head with the last. Every border between cells
/// is crossed by what two of them have made. Source: Zoph et al. 2018.
ImageNetwork nasnet(const NasnetOptions& options = {});

}  // namespace sectionflow
