#include "kernels/cpu/convolution.h"
#include "kernels/kernel_registry.h"

namespace sectionflow {

void add_conv2d_cpu_kernels(KernelRegistry& registry) {
  add_convolution_kernels(registry, "conv2d");
}

}  // namespace sectionflow
