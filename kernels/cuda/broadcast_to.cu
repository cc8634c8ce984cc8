#include <cstdint>

#include "base/error.h"
#include "graph/ops/broadcast_to.h"
#include "kernels/cuda/broadcast.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/function_kernel.h"

namespace sectionflow {
namespace {

struct Same {
  template <class T>
  SF_HOST_DEVICE T operator()(T x) const {
    return x;
  }
};

/// Elements are moved without being looked at: T is any type of their size.
template <class T>
std::unique_ptr<Kernel> make_repetition(const KernelRequest& request) {
  const Shape& y = request.outputs[0].shape;
  const gpu::Broadcast<T, T> repetition(y, {broadcast_strides(request.inputs[0].shape, y)});
  return function_kernel([repetition](const KernelArguments& arguments) {
    repetition.launch(arguments.queue, Same(), arguments.outputs[0], {arguments.inputs[0]});
  });
}

std::unique_ptr<Kernel> make_broadcast_to(const KernelRequest& request) {
  const TensorType& x = request.inputs[0];
  if (x.shape.num_elements() == request.outputs[0].shape.num_elements()) {
    return gpu::copy_kernel(request.outputs[0].bytes());
  }
  switch (dtype_bytes(x.dtype)) {
    case 1:
      return make_repetition<std::uint8_t>(request);
    case 2:
      return make_repetition<std::uint16_t>(request);
    case 4:
      return make_repetition<std::uint32_t>(request);
    case 8:
      return make_repetition<std::uint64_t>(request);
    default:
      throw InternalError(text_of(request.node.label(), ": no element has ", dtype_bytes(x.dtype), " bytes"));
  }
}

}  // namespace

void add_broadcast_to_cuda_kernels(KernelRegistry& registry) {
  registry.add("broadcast_to", make_broadcast_to, Bf16::native);
  registry.add("broadcast_like", make_broadcast_to, Bf16::native);
}

}  // namespace sectionflow
