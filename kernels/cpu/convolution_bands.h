#pragma once

#include <cstdint>
#include <vector>

#include "graph/nodes/convolution.h"

namespace sectionflow {

/// A part of a convolution that is one by itself: some of its images, or some rows of one.
struct ConvolutionBand {
  ConvolutionGeometry geometry{};
  std::int64_t first_x = 0, first_y = 0;  ///< pixels of all images that stand before its own

  std::int64_t pixels() const;  ///< of y
};

/// Whether two are the same convolution, of other images.
bool are_alike(const ConvolutionBand& a, const ConvolutionBand& b);

/// The convolution in bands, which together give each pixel of y once, in order: of at most `most_pixels` of y, where a
/// row has no more, and for each of `lanes` threads as many, as far as rows can be shared out. Of images with channels
/// last. Empty where it has rows that read padding alone, which are no convolution.
std::vector<ConvolutionBand> convolution_bands(const ConvolutionGeometry& whole, std::int64_t most_pixels,
                                               std::int64_t lanes);

}  // namespace sectionflow
