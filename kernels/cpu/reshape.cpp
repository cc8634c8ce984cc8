#include "graph/ops/reshape.h"

#include "kernels/cpu/copy_bytes.h"
#include "kernels/cpu/function_kernel.h"
#include "kernels/kernel_registry.h"

namespace sectionflow {
namespace {

std::unique_ptr<Kernel> make_copy(const KernelRequest& request) {
  return function_kernel(
      [num_bytes = request.outputs[0].bytes()](const KernelArguments& arguments) {
        copy_bytes(arguments.outputs[0], arguments.inputs[0], num_bytes);
      },
      {.in_place = {{0, 0}}});
}

}  // namespace

void add_reshape_cpu_kernels(KernelRegistry& registry) {
  registry.add("reshape", make_copy);
  registry.add("flatten", make_copy);
  registry.add("reshape_like", make_copy);
}

}  // namespace sectionflow
