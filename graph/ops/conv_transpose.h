#pragma once

#include <cstdint>

#include "base/export.h"
#include "graph/graph.h"
#include "graph/ops/convolution.h"
#include "graph/ops/window.h"

namespace SF_API sectionflow {

/// The convolution of two dimensions that is transposed, and which of the sizes it fits the output has.
struct ConvTranspose2dOptions {
  PerAxis<2> stride = 1;            ///< {height, width}, >= 1
  Padding padding = Padding::same;  ///< of the convolution that is transposed: taken off the output
  /// Rows and columns more, at the end of the output; less than the stride, and 0 with Padding::same.
  PerAxis<2> output_padding = 0;
  PerAxis<2> dilation = 1;  ///< distance of the kernel's elements, >= 1
  std::int64_t groups = 1;
  DataFormat format = DataFormat::nhwc;  ///< nchw costs copies of x and y in scratch memory, and their time
};
/// The same, for every rank.
ConvolutionOptions convolution_options(const ConvTranspose2dOptions& options);

/// The gradient of conv2d with respect to its input, as an operation: each element of x adds its multiple of the kernel
/// to y, `stride` apart. With Padding::same, y is `stride` times as large as x; otherwise along each axis
/// (H - 1) stride + (KH - 1) dilation + 1 - padding before - padding after + output_padding.
/// Shapes: x [N, H, W, C] ([N, C, H, W] with DataFormat::nchw), w [KH, KW, F / groups, C], y [N, OH, OW, F]. f32 or
/// bf16. Throws: ShapeError, ArgumentError when ranks, channels, groups or output_padding do not fit.
Value conv_transpose2d(Value x, Value w, ConvTranspose2dOptions options = {}, Where where = Where::here());

/// The convolution of three dimensions that is transposed, and which of the sizes it fits the output has.
struct ConvTranspose3dOptions {
  PerAxis<3> stride = 1;                ///< {depth, height, width}, >= 1
  Padding3d padding = Padding3d::same;  ///< of the convolution that is transposed: taken off the output
  /// More at the end of the output; less than the stride, and 0 with Padding3d::same.
  PerAxis<3> output_padding = 0;
  PerAxis<3> dilation = 1;  ///< distance of the kernel's elements, >= 1
  std::int64_t groups = 1;
  DataFormat format = DataFormat::nhwc;  ///< nchw costs copies of x and y in scratch memory, and their time
};
/// The same, for every rank.
ConvolutionOptions convolution_options(const ConvTranspose3dOptions& options);

/// The same of conv3d. Shapes: x [N, D, H, W, C] ([N, C, D, H, W] with DataFormat::nchw), w [KD, KH, KW, F / groups,
/// C], y [N, OD, OH, OW, F]. f32 or bf16. Throws: as conv_transpose2d.
Value conv_transpose3d(Value x, Value w, ConvTranspose3dOptions options = {}, Where where = Where::here());

}  // namespace sectionflow
