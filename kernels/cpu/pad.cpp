#include "graph/ops/pad.h"

#include "kernels/cpu/bordered_copy.h"
#include "kernels/cpu/strided_copy.h"
#include "kernels/kernel_registry.h"

namespace sectionflow {
namespace {

std::unique_ptr<Kernel> make_pad(const KernelRequest& request) {
  const auto& options = request.node.options<PadOptions>();
  return bordered_copy_kernel(
      {.y = request.outputs[0], .x = request.inputs[0].shape, .before = options.before, .value = options.value});
}

std::unique_ptr<Kernel> make_pad_grad(const KernelRequest& request) {
  return strided_copy_kernel(
      box_of(request.inputs[0], request.node.options<PadOptions>().before, request.outputs[0].shape));
}

}  // namespace

void add_pad_cpu_kernels(KernelRegistry& registry) {
  registry.add("pad", make_pad, Bf16::native);
  registry.add("pad_grad", make_pad_grad, Bf16::native);
}

}  // namespace sectionflow
