#include "kernels/cpu/convolution.h"
#include "kernels/kernel_registry.h"

namespace sectionflow {

void add_conv3d_cpu_kernels(KernelRegistry& registry) {
  add_convolution_kernels(registry, "conv3d");
}

}  // namespace sectionflow
