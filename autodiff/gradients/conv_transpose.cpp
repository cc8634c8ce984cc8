#include "graph/ops/conv_transpose.h"

#include "autodiff/gradient_registry.h"

namespace sectionflow {
namespace {

// y is linear in x and in w as the gradient of a convolution's input is in dy and w: so dx is that convolution of dy,
// and dw its filter's gradient, with x in the place of the gradient of its output.
std::vector<Value> conv_transpose_gradient(const GradientRequest& r) {
  const auto& options = r.node.options<ConvolutionOptions>();
  const Value dw = r.wanted[1] ? convolution_backward_filter(r.input(0), r.dy(), r.input(1), options) : Value();
  const Value dx = r.wanted[0] ? convolution(r.dy(), r.input(1), options) : Value();
  return {dx, dw};
}

}  // namespace

void add_conv_transpose_gradients(GradientRegistry& registry) {
  registry.add("conv_transpose2d", conv_transpose_gradient);
  registry.add("conv_transpose3d", conv_transpose_gradient);
}

}  // namespace sectionflow
