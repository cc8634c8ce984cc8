#include "kernels/cuda/convolution.h"
#include "kernels/cuda/cuda_kernels.h"

namespace sectionflow {

void add_conv3d_cuda_kernels(KernelRegistry& registry) {
  add_cuda_convolution_kernels(registry, "conv3d");
}

}  // namespace sectionflow
