#pragma once

#include <cstdint>

#include "base/export.h"
#include "graph/graph.h"
#include "graph/ops/data_format.h"

namespace SF_API sectionflow {

/// Whether a pixel is the nearest one's copy or between its four neighbours.
enum class ResizeMethod { nearest, bilinear };

/// The size of the new image, and how its pixels are found in the old one.
struct Resize2dOptions {
  std::int64_t height = 0, width = 0;  ///< of the result; must be set
  ResizeMethod method = ResizeMethod::nearest;
  /// Where pixel i of `out` pixels lies among `in`. False: pixels are squares that together cover the same image,
  /// at (i + 1/2) in / out - 1/2. True: the corner pixels lie on each other, at i (in - 1) / (out - 1), or 0 for out
  /// = 1.
  bool align_corners = false;
  DataFormat format = DataFormat::nhwc;
};

/// x at another resolution. nearest takes the pixel nearest to the place (of two, the later): for whole factors each
/// pixel is repeated. bilinear weighs the four around it; the border is repeated outwards. No smoothing: of an image
/// made smaller, pixels are left out.
/// The numbers are those of PyTorch's interpolate with mode "nearest-exact" and "bilinear".
/// Shapes: x [N, H, W, C], y [N, height, width, C], or x [N, C, H, W] and y likewise; H, W >= 1. Any dtype for nearest,
/// f32 for bilinear and for gradients. Throws: ShapeError, ArgumentError.
Value resize2d(Value x, Resize2dOptions options, Where where = Where::here());

}  // namespace sectionflow
