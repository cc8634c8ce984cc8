#include "graph/ops/bias_add.h"
#include "kernels/cuda/broadcast.h"
#include "kernels/cuda/chain.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/fixed_order_reduce.h"
#include "kernels/formulas/arithmetic.h"
#include "kernels/function_kernel.h"

namespace sectionflow {
namespace {

/// Which dimensions of [..., C] or [N, C, ...] are not the channel.
std::vector<bool> all_but_channel(const KernelRequest& request, const Shape& shape) {
  std::vector<bool> axes(static_cast<std::size_t>(shape.rank()), true);
  const bool is_last = request.node.options<BiasAddOptions>().format == DataFormat::nhwc;
  axes[is_last ? axes.size() - 1 : 1] = false;
  return axes;
}

/// As a sum that chains may take.
std::unique_ptr<Kernel> linked(const KernelRequest& request, std::unique_ptr<Kernel> kernel) {
  const Shape& y = request.outputs[0].shape;
  const bool is_last = request.node.options<BiasAddOptions>().format == DataFormat::nhwc;
  gpu::ChainLink link{.formula = gpu::ChainFormula::add,
                      .dtype = request.outputs[0].dtype,
                      .count = y.num_elements(),
                      .channels = request.inputs[1].shape.num_elements()};
  for (int axis = 2; axis < y.rank() && !is_last; ++axis) link.inner *= y[axis];
  return gpu::linked_kernel(link, std::move(kernel));
}

std::unique_ptr<Kernel> make_bias_add(const KernelRequest& request) {
  const Shape& y = request.outputs[0].shape;
  const std::vector<bool> repeated = all_but_channel(request, y);
  const std::vector<std::int64_t> dense = kept_strides(y, std::vector<bool>(repeated.size(), false));
  auto kernel = with_stored_type(request.outputs[0].dtype, [&](auto element) -> std::unique_ptr<Kernel> {
    using T = decltype(element);
    const gpu::Broadcast<T, T, T> add(y, {dense, kept_strides(y, repeated)});
    return function_kernel(
        [add](const KernelArguments& arguments) {
          add.launch(arguments.queue, OfStored<T, formulas::Add>(), arguments.outputs[0],
                     {arguments.inputs[0], arguments.inputs[1]});
        },
        {.in_place = {{.input = 0, .output = 0}}});
  });
  return linked(request, std::move(kernel));
}

std::unique_ptr<Kernel> make_bias_add_grad(const KernelRequest& request) {
  const TensorType& dy = request.inputs[0];
  return gpu::sum_kernel(gpu::ReducePlan(dy.shape, all_but_channel(request, dy.shape)), dy.dtype, 1);
}

}  // namespace

void add_bias_add_cuda_kernels(KernelRegistry& registry) {
  registry.add("bias_add", make_bias_add, Bf16::native);
  registry.add("bias_add_grad", make_bias_add_grad, Bf16::native);
}

}  // namespace sectionflow
