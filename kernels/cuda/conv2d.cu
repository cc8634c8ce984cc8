#include "kernels/cuda/convolution.h"
#include "kernels/cuda/cuda_kernels.h"

namespace sectionflow {

void add_conv2d_cuda_kernels(KernelRegistry& registry) {
  add_cuda_convolution_kernels(registry, "conv2d");
}

}  // namespace sectionflow
