#pragma once

#include <cstdint>

#include "base/export.h"
#include "graph/graph.h"
#include "graph/ops/convolution.h"
#include "graph/ops/window.h"

namespace SF_API sectionflow {

/// How a window of two dimensions moves over the image.
struct Conv2dOptions {
  PerAxis<2> stride = 1;  ///< {height, width}, >= 1
  Padding padding = Padding::same;
  PerAxis<2> dilation = 1;  ///< distance of the kernel's elements, >= 1
  std::int64_t groups = 1;  ///< filters read the channels of their group alone; as many as channels: depthwise
  DataFormat format = DataFormat::nhwc;  ///< nchw costs copies of x and y in scratch memory, and their time
};
/// The same, for every rank.
ConvolutionOptions convolution_options(const Conv2dOptions& options);

/// Two-dimensional cross-correlation. Shapes: x [N, H, W, C] ([N, C, H, W] with DataFormat::nchw),
/// w [KH, KW, C / groups, F], y [N, OH, OW, F]. f32 or bf16.
/// Throws: ShapeError, ArgumentError when ranks, channels or groups do not fit, or the kernel is larger than the padded
/// image.
Value conv2d(Value x, Value w, Conv2dOptions options = {}, Where where = Where::here());
/// dx from dy. Reads only the shape of `x`.
Value conv2d_backward_input(Value dy, Value w, Value x, Conv2dOptions options);
/// dw from dy. Reads only the shape of `w`.
Value conv2d_backward_filter(Value dy, Value x, Value w, Conv2dOptions options);

}  // namespace sectionflow
