#include "graph/ops/quantize.h"

#include "autodiff/gradient_registry.h"

namespace sectionflow {

void add_quantize_gradients(GradientRegistry& registry) {
  for (const char* op : {"quantize", "dequantize", "quantized_add"}) {
    registry.add_refused(op, "numbers of 8 bits are for inference",
                         "train the graph that was frozen, in f32, and quantise it again");
  }
}

}  // namespace sectionflow
