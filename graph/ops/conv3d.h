#pragma once

#include <cstdint>

#include "base/export.h"
#include "graph/graph.h"
#include "graph/ops/convolution.h"
#include "graph/ops/window.h"

namespace SF_API sectionflow {

/// How a window of three dimensions moves over the volume.
struct Conv3dOptions {
  PerAxis<3> stride = 1;  ///< {depth, height, width}, >= 1
  Padding3d padding = Padding3d::same;
  PerAxis<3> dilation = 1;  ///< distance of the kernel's elements, >= 1
  std::int64_t groups = 1;  ///< filters read the channels of their group alone; as many as channels: depthwise
  DataFormat format = DataFormat::nhwc;  ///< nchw costs copies of x and y in scratch memory, and their time
};
/// The same, for every rank.
ConvolutionOptions convolution_options(const Conv3dOptions& options);

/// Three-dimensional cross-correlation. Shapes: x [N, D, H, W, C] ([N, C, D, H, W] with DataFormat::nchw),
/// w [KD, KH, KW, C / groups, F], y [N, OD, OH, OW, F]. f32 or bf16.
/// Throws: ShapeError, ArgumentError when ranks, channels or groups do not fit, or the kernel is larger than the padded
/// image.
Value conv3d(Value x, Value w, Conv3dOptions options = {}, Where where = Where::here());
/// dx from dy. Reads only the shape of `x`.
Value conv3d_backward_input(Value dy, Value w, Value x, Conv3dOptions options);
/// dw from dy. Reads only the shape of `w`.
Value conv3d_backward_filter(Value dy, Value x, Value w, Conv3dOptions options);

}  // namespace sectionflow
