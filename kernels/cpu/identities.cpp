#include "graph/ops/identities.h"

#include "kernels/cpu/copies.h"
#include "kernels/function_kernel.h"
#include "kernels/kernel_registry.h"
#include "kernels/print_values.h"

namespace sectionflow {
namespace {

std::unique_ptr<Kernel> make_print(const KernelRequest& request) {
  const auto& options = request.node.options<PrintOptions>();
  return function_kernel(
      [printed = PrintedValues{options.label, request.inputs[0], options.first}, num_bytes = request.inputs[0].bytes(),
       silent = request.replay](const KernelArguments& arguments) {
        if (!silent) printed.log(arguments.inputs[0]);
        copy_bytes(arguments.outputs[0], arguments.inputs[0], num_bytes);
      },
      {.in_place = {{0, 0}}});
}

}  // namespace

void add_identities_cpu_kernels(KernelRegistry& registry) {
  registry.add(
      "stop_gradient", [](const KernelRequest& request) { return copy_kernel(request.outputs[0].bytes()); },
      Bf16::native);
  registry.add(
      "custom_gradient", [](const KernelRequest& request) { return copy_kernel(request.outputs[0].bytes()); },
      Bf16::native);
  registry.add("print", make_print, Bf16::native);
  // Swaps are copies between device and host: the executor carries them, no kernel does.
}

}  // namespace sectionflow
