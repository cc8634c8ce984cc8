#include "graph/ops/quantized_convolution.h"

#include "autodiff/gradient_registry.h"

namespace sectionflow {

void add_quantized_convolution_gradients(GradientRegistry& registry) {
  for (const char* op : {"quantized_conv2d", "quantized_conv3d", "quantized_matmul"}) {
    registry.add_refused(op, "numbers of 8 bits are for inference",
                         "train the graph that was frozen, in f32, and quantise it again");
  }
}

}  // namespace sectionflow
