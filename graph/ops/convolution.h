#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/export.h"
#include "graph/graph.h"
#include "graph/initializer.h"
#include "graph/ops/window.h"

namespace SF_API sectionflow {

/// What a convolution of `rank` spatial axes is told. A layer makes its kernel and its bias itself; an operation that
/// is given its kernel w takes these same options, but refuses what only a layer has, unless it says what w says.
///
///   Value y = conv2d(x, {.features = 16, .kernel = 5, .bias = true});  // variables of its own
///   Value z = conv2d(x, w, {.stride = 2});
template <std::size_t rank>
struct ConvNdOptions {
  std::int64_t features = 0;  ///< channels of y; a layer must be told
  PerAxis<rank> kernel = 3;   ///< of a layer: {height, width} or {depth, height, width}, >= 1
  PerAxis<rank> stride = 1;   ///< >= 1
  /// Of a transposed convolution: of the one that is transposed, so taken off the output.
  SpatialPadding<rank> padding = SpatialPadding<rank>::same;
  /// Of transposed ones alone: more at the end of the output; less than the stride, and 0 with Padding::same.
  PerAxis<rank> output_padding = 0;
  PerAxis<rank> dilation = 1;  ///< distance of the kernel's elements, >= 1
  std::int64_t groups = 1;     ///< filters read the channels of their group alone; as many as channels: depthwise
  DataFormat format = DataFormat::nhwc;  ///< nchw costs copies of x and y in scratch memory, and their time
  bool bias = false;                     ///< of a layer
  Initializer kernel_initializer{};      ///< of a layer; he_normal() where none is given
  Initializer bias_initializer{};        ///< of a layer; zeros() where none is given
  std::string name{};  ///< of a layer: what its variables' names begin with; empty: "conv2d" and so on
};
/// Images of two dimensions.
using Conv2dOptions = ConvNdOptions<2>;
/// Volumes.
using Conv3dOptions = ConvNdOptions<3>;

// Layers, with a kernel of their own: the trainable variables `<name>/kernel` and, where wanted, `<name>/bias`. What
// graph/layers.h says of dtypes holds for them. Throws: ShapeError, ArgumentError, before anything is made.

/// Two-dimensional cross-correlation. Shapes: x [N, H, W, C] ([N, C, H, W] with DataFormat::nchw),
/// kernel [KH, KW, C / groups, features], bias [features], y [N, OH, OW, features].
Value conv2d(Value x, const Conv2dOptions& options, Where where = Where::here());
/// Three-dimensional cross-correlation. Shapes: x [N, D, H, W, C] ([N, C, D, H, W] with DataFormat::nchw),
/// kernel [KD, KH, KW, C / groups, features], bias [features], y [N, OD, OH, OW, features].
Value conv3d(Value x, const Conv3dOptions& options, Where where = Where::here());
/// The gradient of conv2d with respect to its input, as an operation: each element of x adds its multiple of the kernel
/// to y, `stride` apart. With Padding::same, y is `stride` times as large as x; otherwise along each axis
/// (H - 1) stride + (KH - 1) dilation + 1 - padding before - padding after + output_padding.
/// Shapes: as conv2d, with kernel [KH, KW, features / groups, C].
Value conv_transpose2d(Value x, const Conv2dOptions& options, Where where = Where::here());
/// The same of conv3d. Shapes: as conv3d, with kernel [KD, KH, KW, features / groups, C].
Value conv_transpose3d(Value x, const Conv3dOptions& options, Where where = Where::here());

// The same with a kernel w that is given, f32 or bf16 as x is. Throws: ShapeError, ArgumentError when ranks, channels
// or groups do not fit, the kernel is larger than the padded image, or options speak of a layer.

/// conv2d of w [KH, KW, C / groups, features].
Value conv2d(Value x, Value w, const Conv2dOptions& options = {}, Where where = Where::here());
/// conv3d of w [KD, KH, KW, C / groups, features].
Value conv3d(Value x, Value w, const Conv3dOptions& options = {}, Where where = Where::here());
/// conv_transpose2d of w [KH, KW, features / groups, C].
Value conv_transpose2d(Value x, Value w, const Conv2dOptions& options = {}, Where where = Where::here());
/// conv_transpose3d of w [KD, KH, KW, features / groups, C].
Value conv_transpose3d(Value x, Value w, const Conv3dOptions& options = {}, Where where = Where::here());

}  // namespace sectionflow
