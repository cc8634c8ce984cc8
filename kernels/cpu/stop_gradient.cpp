#include "graph/ops/stop_gradient.h"

#include "kernels/cpu/copy_kernel.h"
#include "kernels/kernel_registry.h"

namespace sectionflow {

void add_stop_gradient_cpu_kernels(KernelRegistry& registry) {
  registry.add(
      "stop_gradient", [](const KernelRequest& request) { return copy_kernel(request.outputs[0].bytes()); },
      Bf16::native);
}

}  // namespace sectionflow
