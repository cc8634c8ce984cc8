#include "graph/ops/conv3d.h"

#include "autodiff/convolution_gradients.h"

namespace sectionflow {

void add_conv3d_gradients(GradientRegistry& registry) {
  add_convolution_gradients(registry, "conv3d");
}

}  // namespace sectionflow
