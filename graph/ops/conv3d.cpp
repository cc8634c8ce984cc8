#include "graph/ops/conv3d.h"

#include "graph/op_registry.h"

namespace sectionflow {

ConvolutionOptions convolution_options(const Conv3dOptions& options) {
  return {.steps = window_steps(options.stride, options.dilation, options.padding, options.format),
          .groups = options.groups};
}

void define_conv3d_ops(OpRegistry& registry) {
  define_convolution_ops(registry, "conv3d");
}

Value conv3d(Value x, Value w, Conv3dOptions options, Where where) {
  return convolution(x, w, convolution_options(options), where);
}
Value conv3d_backward_input(Value dy, Value w, Value x, Conv3dOptions options) {
  return convolution_backward_input(dy, w, x, convolution_options(options));
}
Value conv3d_backward_filter(Value dy, Value x, Value w, Conv3dOptions options) {
  return convolution_backward_filter(dy, x, w, convolution_options(options));
}

}  // namespace sectionflow
