#include "kernels/cuda/convolution.h"
#include "kernels/cuda/cuda_kernels.h"

namespace sectionflow {

void add_conv_transpose_cuda_kernels(KernelRegistry& registry) {
  registry.add("conv_transpose2d", make_cuda_convolution_backward_input);
  registry.add("conv_transpose3d", make_cuda_convolution_backward_input);
}

}  // namespace sectionflow
