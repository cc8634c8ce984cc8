#include "kernels/cpu/convolution.h"
#include "kernels/kernel_registry.h"

namespace sectionflow {

void add_conv_transpose_cpu_kernels(KernelRegistry& registry) {
  for (const char* op : {"conv_transpose2d", "conv_transpose3d"}) {
    registry.add(op, make_convolution_backward_input);
    registry.add(op, make_convolution_backward_input_loop);
  }
}

}  // namespace sectionflow
