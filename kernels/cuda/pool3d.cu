#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/pool.h"

namespace sectionflow {

void add_pool3d_cuda_kernels(KernelRegistry& registry) {
  registry.add("max_pool3d", make_cuda_max_pool, Bf16::native);
  registry.add("max_pool3d_grad", make_cuda_max_pool_grad, Bf16::native);
  registry.add("average_pool3d", make_cuda_average_pool, Bf16::native);
  registry.add("average_pool3d_grad", make_cuda_average_pool_grad, Bf16::native);
}

}  // namespace sectionflow
