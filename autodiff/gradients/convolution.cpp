#include "graph/ops/convolution.h"

#include "autodiff/gradient_registry.h"
#include "graph/nodes/convolution.h"

namespace sectionflow {
namespace {

// A convolution is linear in x and in w, and its gradients are linear in dy and in the other of the two: so all that is
// needed are the three ops themselves, with g in the place of what was differentiated.

std::vector<Value> convolution_gradient(const GradientRequest& r) {
  const auto& options = r.node.options<ConvolutionOptions>();
  // The filter's gradient first: it is the last reader of x, whose bytes are then free for dx.
  const Value dw = r.wanted[1] ? convolution_backward_filter(r.dy(), r.input(0), r.input(1), options) : Value();
  const Value dx = r.wanted[0] ? convolution_backward_input(r.dy(), r.input(1), r.input(0), options) : Value();
  return {dx, dw};
}

// dx of dy and w; g is like x.
std::vector<Value> backward_input_gradient(const GradientRequest& r) {
  const auto& options = r.node.options<ConvolutionOptions>();
  const Value dy = r.input(0), w = r.input(1);
  const Value dw = r.wanted[1] ? convolution_backward_filter(dy, r.dy(), w, options) : Value();
  return {r.wanted[0] ? convolution(r.dy(), w, options) : Value(), dw, Value()};
}

// dw of dy and x; g is like w.
std::vector<Value> backward_filter_gradient(const GradientRequest& r) {
  const auto& options = r.node.options<ConvolutionOptions>();
  const Value dy = r.input(0), x = r.input(1);
  const Value dx = r.wanted[1] ? convolution_backward_input(dy, r.dy(), x, options) : Value();
  return {r.wanted[0] ? convolution(x, r.dy(), options) : Value(), dx, Value()};
}

// y is linear in x and in w as the gradient of a convolution's input is in dy and w: so dx is that convolution of dy,
// and dw its filter's gradient, with x in the place of the gradient of its output.
std::vector<Value> conv_transpose_gradient(const GradientRequest& r) {
  const auto& options = r.node.options<ConvolutionOptions>();
  const Value dw = r.wanted[1] ? convolution_backward_filter(r.input(0), r.dy(), r.input(1), options) : Value();
  const Value dx = r.wanted[0] ? convolution(r.dy(), r.input(1), options) : Value();
  return {dx, dw};
}

}  // namespace

void add_convolution_gradients(GradientRegistry& registry) {
  for (const std::string name : {"conv2d", "conv3d"}) {
    registry.add(name, convolution_gradient);
    registry.add(name + "_backward_input", backward_input_gradient);
    registry.add(name + "_backward_filter", backward_filter_gradient);
  }
  registry.add("conv_transpose2d", conv_transpose_gradient);
  registry.add("conv_transpose3d", conv_transpose_gradient);
}

}  // namespace sectionflow
