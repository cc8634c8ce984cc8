#include "graph/ops/conv3d.h"

#include "autodiff/gradient_registry.h"

namespace sectionflow {

void add_conv3d_gradients(GradientRegistry& registry) {
  registry.add("conv3d", [](const GradientRequest& r) {
    const auto& options = r.node.options<ConvolutionOptions>();
    // The filter's gradient first: it is the last reader of x, whose bytes are then free for dx.
    const Value dw = r.wanted[1] ? convolution_backward_filter(r.dy(), r.input(0), r.input(1), options) : Value();
    const Value dx = r.wanted[0] ? convolution_backward_input(r.dy(), r.input(1), r.input(0), options) : Value();
    return std::vector{dx, dw};
  });
}

}  // namespace sectionflow
