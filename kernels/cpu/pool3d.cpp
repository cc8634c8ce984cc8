#include "kernels/cpu/pool.h"
#include "kernels/kernel_registry.h"

namespace sectionflow {

void add_pool3d_cpu_kernels(KernelRegistry& registry) {
  registry.add("max_pool3d", make_max_pool);
  registry.add("max_pool3d_grad", make_max_pool_grad);
  registry.add("average_pool3d", make_average_pool);
  registry.add("average_pool3d_grad", make_average_pool_grad);
}

}  // namespace sectionflow
