#include "graph/ops/reshape.h"

#include "kernels/cpu/copy_kernel.h"
#include "kernels/kernel_registry.h"

namespace sectionflow {
namespace {

std::unique_ptr<Kernel> make_copy(const KernelRequest& request) {
  return copy_kernel(request.outputs[0].bytes());
}

}  // namespace

void add_reshape_cpu_kernels(KernelRegistry& registry) {
  registry.add("reshape", make_copy, Bf16::native);
  registry.add("flatten", make_copy, Bf16::native);
  registry.add("reshape_like", make_copy, Bf16::native);
}

}  // namespace sectionflow
