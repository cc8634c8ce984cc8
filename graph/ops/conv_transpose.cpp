#include "graph/ops/conv_transpose.h"

#include "graph/check_f32.h"
#include "graph/op_registry.h"

namespace sectionflow {
namespace {

std::vector<TensorType> infer(const ShapeRequest& request) {
  check_f32(request);
  const auto& options = request.get<ConvolutionOptions>();
  const auto g = transposed_geometry(request.inputs[0].shape, request.inputs[1].shape, options, request.label);
  return {{Dtype::f32, g.x_shape()}};
}

template <class Options>
ConvolutionOptions node_options(const Options& options) {
  return {.steps = window_steps(options.stride, options.dilation, options.padding, options.format),
          .groups = options.groups,
          .output_padding = {options.output_padding.begin(), options.output_padding.end()}};
}

}  // namespace

ConvolutionOptions convolution_options(const ConvTranspose2dOptions& options) {
  return node_options(options);
}
ConvolutionOptions convolution_options(const ConvTranspose3dOptions& options) {
  return node_options(options);
}

void define_conv_transpose_ops(OpRegistry& registry) {
  registry.add({.name = "conv_transpose2d", .infer = infer});
  registry.add({.name = "conv_transpose3d", .infer = infer});
}

Value conv_transpose2d(Value x, Value w, ConvTranspose2dOptions options, Where where) {
  return x.graph().add_node("conv_transpose2d", {x, w}, node_options(options), "conv_transpose2d", where).output();
}
Value conv_transpose3d(Value x, Value w, ConvTranspose3dOptions options, Where where) {
  return x.graph().add_node("conv_transpose3d", {x, w}, node_options(options), "conv_transpose3d", where).output();
}

}  // namespace sectionflow
