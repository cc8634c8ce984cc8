#include "graph/ops/slice.h"

#include "kernels/cpu/bordered_copy.h"
#include "kernels/cpu/strided_copy.h"
#include "kernels/kernel_registry.h"

namespace sectionflow {
namespace {

std::unique_ptr<Kernel> make_slice(const KernelRequest& request) {
  const TensorType& x = request.inputs[0];
  const auto& begin = request.node.options<SliceOptions>().begin;
  StridedCopy copy{.element_bytes = dtype_bytes(x.dtype),
                   .y = request.outputs[0].shape,
                   .strides = dense_strides(x.shape),
                   .num_x_elements = x.shape.num_elements()};
  for (std::size_t axis = 0; axis < begin.size(); ++axis) copy.first += begin[axis] * copy.strides[axis];
  return strided_copy_kernel(copy);
}

std::unique_ptr<Kernel> make_slice_grad(const KernelRequest& request) {
  return bordered_copy_kernel(
      {.y = request.outputs[0], .x = request.inputs[0].shape, .before = request.node.options<SliceOptions>().begin});
}

}  // namespace

void add_slice_cpu_kernels(KernelRegistry& registry) {
  registry.add("slice", make_slice);
  registry.add("slice_grad", make_slice_grad);
}

}  // namespace sectionflow
