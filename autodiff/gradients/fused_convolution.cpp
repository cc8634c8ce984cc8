#include "graph/ops/fused_convolution.h"

#include "autodiff/gradient_registry.h"

namespace sectionflow {

void add_fused_convolution_gradients(GradientRegistry& registry) {
  for (const char* op : {"fused_conv2d", "fused_conv3d"}) {
    registry.add_refused(op, "a fused convolution is made for inference",
                         "train the graph that was frozen, and freeze it again");
  }
}

}  // namespace sectionflow
