#include "graph/ops/conv2d.h"

#include "autodiff/convolution_gradients.h"

namespace sectionflow {

void add_conv2d_gradients(GradientRegistry& registry) {
  add_convolution_gradients(registry, "conv2d");
}

}  // namespace sectionflow
