#include "graph/ops/conv_transpose.h"

#include "graph/check_dtype.h"
#include "graph/op_registry.h"
#include "graph/ops/described_window.h"

namespace sectionflow {
namespace {

std::vector<TensorType> infer(const ShapeRequest& request, std::size_t rank) {
  const Dtype dtype = check_f32_or_bf16(request);
  const auto& options = request.get<ConvolutionOptions>();
  check_steps_of(options.steps, rank, request.label);
  SF_CHECK(options.output_padding.size() == rank, ArgumentError, request.label, " got ", options.output_padding.size(),
           " numbers as output padding; wanted ", rank);
  const auto g = transposed_geometry(request.inputs[0].shape, request.inputs[1].shape, options, request.label);
  return {{dtype, g.x_shape()}};
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
  for (std::size_t rank : {2, 3}) {
    registry.add({.name = text_of("conv_transpose", rank, "d"),
                  .inputs = 2,
                  .options = described_convolution(),
                  .infer = [rank](const ShapeRequest& request) { return infer(request, rank); },
                  .flops = [](auto inputs, auto /*outputs*/) { return convolution_flops(inputs[0], inputs[1]); }});
  }
}

Value conv_transpose2d(Value x, Value w, ConvTranspose2dOptions options, Where where) {
  return x.graph().add_node("conv_transpose2d", {x, w}, node_options(options), "conv_transpose2d", where).output();
}
Value conv_transpose3d(Value x, Value w, ConvTranspose3dOptions options, Where where) {
  return x.graph().add_node("conv_transpose3d", {x, w}, node_options(options), "conv_transpose3d", where).output();
}

}  // namespace sectionflow
