#include "graph/ops/stop_gradient.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/elementwise.h"

namespace sectionflow {

void add_stop_gradient_cuda_kernels(KernelRegistry& registry) {
  registry.add(
      "stop_gradient", [](const KernelRequest& request) { return gpu::copy_kernel(request.outputs[0].bytes()); },
      Bf16::native);
}

}  // namespace sectionflow
