#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/export.h"
#include "graph/graph.h"
#include "graph/op_def.h"
#include "graph/ops/window.h"

namespace SF_API sectionflow {

class OpRegistry;

// What convolutions of every rank share, and what transposed ones are made of. An op `name` ("conv2d", "conv3d") comes
// with the two ops of its gradients:
//   name                 x, w -> y
//   name_backward_input  dy, w, x -> dx      reads only the shape of x
//   name_backward_filter dy, x, w -> dw      reads only the shape of w
// Weights are [K..., C / groups, F]; filter f belongs to group f / (F / groups) and reads the channels of that group.

/// Options of all these ops.
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
  Shape y_shape() const;
};
/// Throws: ShapeError, ArgumentError (starting with `label`).
ConvolutionGeometry convolution_geometry(const Shape& x, const Shape& w, const ConvolutionOptions& options,
                                         const std::string& label);
/// The convolution whose gradient a transposed one computes: its y is the transpose's input, its x the output.
/// `x`: the transpose's input, `w` [K..., F / groups, C]. Throws: ShapeError, ArgumentError (starting with `label`).
ConvolutionGeometry transposed_geometry(const Shape& x, const Shape& w, const ConvolutionOptions& options,
                                        const std::string& label);

/// OpDef::flops of the convolution that `w` makes `y` with, and of its gradients: two operations a product. Every
/// element of y meets the whole of w but for one dimension.
double convolution_flops(const TensorType& y, const TensorType& w);
/// ConvolutionOptions as fields of a file.
OptionsDescription described_convolution();
/// Adds the three ops to the registry.
void define_convolution_ops(OpRegistry& registry, const std::string& name);

/// "conv2d", "conv3d"
std::string convolution_name(const ConvolutionOptions& options);
/// Adds the op of that name: w [K..., C / groups, F]; x and y as convolution_geometry says.
Value convolution(Value x, Value w, const ConvolutionOptions& options, Where where = {});
/// dx of convolution; reads of `x` only the shape.
Value convolution_backward_input(Value dy, Value w, Value x, const ConvolutionOptions& options);
/// dw of convolution; reads of `w` only the shape.
Value convolution_backward_filter(Value dy, Value x, Value w, const ConvolutionOptions& options);

}  // namespace sectionflow
