#include "graph/ops/slice.h"
#include "kernels/cuda/bordered_copy.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/strided_copy.h"

namespace sectionflow {
namespace {

std::unique_ptr<Kernel> make_slice(const KernelRequest& request) {
  return gpu::strided_copy_kernel(
      box_of(request.inputs[0], request.node.options<SliceOptions>().begin, request.outputs[0].shape));
}

std::unique_ptr<Kernel> make_slice_grad(const KernelRequest& request) {
  return gpu::bordered_copy_kernel(
      {.y = request.outputs[0], .x = request.inputs[0].shape, .before = request.node.options<SliceOptions>().begin});
}

}  // namespace

void add_slice_cuda_kernels(KernelRegistry& registry) {
  registry.add("slice", make_slice, Bf16::native);
  registry.add("slice_grad", make_slice_grad, Bf16::native);
}

}  // namespace sectionflow
