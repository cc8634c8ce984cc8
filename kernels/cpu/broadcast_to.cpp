#include "graph/ops/broadcast_to.h"

#include "kernels/cpu/broadcast_loop.h"
#include "kernels/cpu/strided_copy.h"
#include "kernels/kernel_registry.h"

namespace sectionflow {
namespace {

std::unique_ptr<Kernel> make_broadcast_to(const KernelRequest& request) {
  const TensorType& x = request.inputs[0];
  const Shape& y = request.outputs[0].shape;
  return strided_copy_kernel({.element_bytes = dtype_bytes(x.dtype),
                              .y = y,
                              .strides = broadcast_strides(x.shape, y),
                              .num_x_elements = x.shape.num_elements()});
}

}  // namespace

void add_broadcast_to_cpu_kernels(KernelRegistry& registry) {
  registry.add("broadcast_to", make_broadcast_to, Bf16::native);
  registry.add("broadcast_like", make_broadcast_to, Bf16::native);
}

}  // namespace sectionflow
