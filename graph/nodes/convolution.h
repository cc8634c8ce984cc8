#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/export.h"
#include "graph/nodes/window.h"
#include "graph/ops/convolution.h"

namespace SF_API sectionflow {

/// dx from dy. Reads only the shape of `x`.
Value conv2d_backward_input(Value dy, Value w, Value x, const Conv2dOptions& options);
/// dw from dy. Reads only the shape of `w`.
Value conv2d_backward_filter(Value dy, Value x, Value w, const Conv2dOptions& options);
/// dx from dy. Reads only the shape of `x`.
Value conv3d_backward_input(Value dy, Value w, Value x, const Conv3dOptions& options);
/// dw from dy. Reads only the shape of `w`.
Value conv3d_backward_filter(Value dy, Value x, Value w, const Conv3dOptions& options);

// What nodes, gradients and kernels of every rank share. An op `name` ("conv2d", "conv3d") comes with the two ops of
// its gradients:
//   name                 x, w -> y
//   name_backward_input  dy, w, x -> dx      reads only the shape of x
//   name_backward_filter dy, x, w -> dw      reads only the shape of w
// Weights are [K..., C / groups, F]; filter f belongs to group f / (F / groups) and reads the channels of that group.
// Transposed convolutions, conv_transpose2d and conv_transpose3d, are made of the same.

/// What the node of any of these ops keeps.
struct ConvolutionOptions {
  WindowSteps steps{};
  std::int64_t groups = 1;
  std::vector<std::int64_t> output_padding{};  ///< of transposed convolutions alone
};

/// All numbers of one convolution, worked out from the shapes. The sizes of images are known.
struct ConvolutionGeometry {
  std::int64_t batch = 0, channels = 0, filters = 0, groups = 1;
  std::vector<WindowAxis> axes{};
  DataFormat format = DataFormat::nhwc;

  std::int64_t num_taps() const;  ///< products of the windows' sizes
  Shape x_shape() const;
  Shape w_shape() const;
  Shape y_shape() const;
};
/// Whether an op is a convolution, or a transposed one.
enum class ConvolutionKind { forward, transposed };
/// Of a transposed one: the convolution whose gradient it computes. That one's y is the transpose's input `x`, its x
/// the output, and `w` is [K..., F / groups, C]. Throws: ShapeError, ArgumentError (starting with `label`).
ConvolutionGeometry convolution_geometry(const Shape& x, const Shape& w, const ConvolutionOptions& options,
                                         const std::string& label, ConvolutionKind kind = ConvolutionKind::forward);

/// OpDef::flops of the convolution that `w` makes `y` with, and of its gradients: two operations a product. Every
/// element of y meets the whole of w but for one dimension.
double convolution_flops(const TensorType& y, const TensorType& w);

/// Adds the op conv2d or conv3d: w [K..., C / groups, F]; x and y as convolution_geometry says.
Value convolution(Value x, Value w, const ConvolutionOptions& options, Where where = {});
/// dx of convolution; reads of `x` only the shape.
Value convolution_backward_input(Value dy, Value w, Value x, const ConvolutionOptions& options);
/// dw of convolution; reads of `w` only the shape.
Value convolution_backward_filter(Value dy, Value x, Value w, const ConvolutionOptions& options);

}  // namespace sectionflow
