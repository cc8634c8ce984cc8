#pragma once

#include <cstdint>

#include "examples/models/image_model.h"

namespace sectionflow {

/// A vision transformer; the sizes are those of ViT-S.
struct VitOptions {
  int layers = 12;  ///< blocks of attention and perceptron
  std::int64_t width = 384;
  std::int64_t heads = 6;   ///< a divisor of the width
  std::int64_t patch = 16;  ///< height and width of the squares that become rows
  std::int64_t classes = 1000;
  float drop_path = 0;  ///< rate at which a part of a block adds nothing to an example
};

/// A vision transformer: square patches become rows, a learned row of a class token stands before them, learned
/// positions are added, layer norm comes before each part of a block, and the class token's row is classified. Natural
/// blocks: those of the transformer; the patches go with the first, the head with the last.
/// Throws: ArgumentError for options that do not fit; ShapeError, where it is built, for images that are no multiple of
/// the patch. Source: Dosovitskiy et al. 2020, at the size of Touvron et al. 2020 (DeiT-S).
ImageNetwork vit(const VitOptions& options = {});

}  // namespace sectionflow
