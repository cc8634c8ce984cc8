#include <cstdint>

#include "base/bytes.h"
#include "kernels/cuda/broadcast.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/fixed_order_reduce.h"
#include "kernels/formulas/reduce.h"
#include "kernels/function_kernel.h"
#include "kernels/reduce_kernels.h"

namespace sectionflow {
namespace {

template <class T>
std::unique_ptr<Kernel> make_max(const gpu::ReducePlan& plan) {
  return function_kernel(
      [plan](const KernelArguments& arguments) {
        plan.run(arguments.queue, static_cast<const T*>(arguments.inputs[0]), arguments.workspace,
                 formulas::MaxReducer(), gpu::StoreTotal<T>{static_cast<T*>(arguments.outputs[0])});
      },
      {.workspace_bytes = plan.workspace_bytes<formulas::MaxReducer>()});
}

std::unique_ptr<Kernel> make_stored_reduce(const KernelRequest& request) {
  return gpu::with_stored_type(request.outputs[0].dtype, [&](auto element) {
    using T = decltype(element);
    return make_reduce<gpu::ReducePlan, gpu::sum_kernel_of<T>, make_max<T>>(request);
  });
}

std::unique_ptr<Kernel> make_reduce_grad(const KernelRequest& request) {
  const Shape& x = request.inputs[1].shape;
  const std::vector<bool> reduced = reduced_axes_of(request, x);
  const bool is_mean = request.node.options<ReduceNodeOptions>().reduction == Reduction::mean;
  const float divisor = is_mean ? static_cast<float>(gpu::ReducePlan(x, reduced).num_reduced()) : 1.0F;
  return gpu::with_stored_type(request.outputs[0].dtype, [&](auto element) -> std::unique_ptr<Kernel> {
    using T = decltype(element);
    const gpu::Broadcast<T, T> repeated(x, {kept_strides(x, reduced)});
    return function_kernel([repeated, divisor](const KernelArguments& arguments) {
      repeated.launch(arguments.queue, gpu::OfStored<T, formulas::DivideBy>{{divisor}}, arguments.outputs[0],
                      {arguments.inputs[0]});
    });
  });
}

/// shares[result] = dy / how many elements are the maximum.
template <class T>
struct StoreShare {
  const T* dy;
  float* shares;
  SF_HOST_DEVICE void operator()(std::int64_t result, double count) const {
    shares[result] = static_cast<float>(static_cast<float>(dy[result]) / count);
  }
};

template <class T>
std::unique_ptr<Kernel> make_reduce_max_grad_of(const KernelRequest& request) {
  using Reducer = formulas::MaximaReducer<T>;
  const Shape& x = request.inputs[1].shape;
  const std::vector<bool> reduced = reduced_axes_of(request, x);
  const std::vector<std::int64_t> dense = kept_strides(x, std::vector<bool>(reduced.size(), false));
  const std::vector<std::int64_t> kept = kept_strides(x, reduced);
  const gpu::ReducePlan plan(x, reduced);
  const gpu::Broadcast<T, T, T, float> give(x, {dense, kept, kept});
  const std::size_t partial_bytes = round_up(plan.workspace_bytes<Reducer>(), kBufferAlignment);
  const std::size_t share_bytes = static_cast<std::size_t>(plan.num_results()) * sizeof(float);
  return function_kernel(
      [=](const KernelArguments& arguments) {
        const auto* dy = static_cast<const T*>(arguments.inputs[0]);
        const auto* y = static_cast<const T*>(arguments.inputs[2]);
        auto* shares = reinterpret_cast<float*>(static_cast<std::byte*>(arguments.workspace) + partial_bytes);
        plan.run(arguments.queue, static_cast<const T*>(arguments.inputs[1]), arguments.workspace, Reducer{y},
                 StoreShare<T>{dy, shares});
        give.launch(arguments.queue, gpu::OfStored<T, formulas::ShareOfMaximum>(), arguments.outputs[0],
                    {arguments.inputs[1], y, shares});
      },
      {.workspace_bytes = partial_bytes + share_bytes, .in_place = {{1, 0}}});
}

std::unique_ptr<Kernel> make_reduce_max_grad(const KernelRequest& request) {
  return gpu::with_stored_type(request.outputs[0].dtype,
                               [&](auto element) { return make_reduce_max_grad_of<decltype(element)>(request); });
}

}  // namespace

void add_reduce_cuda_kernels(KernelRegistry& registry) {
  registry.add("reduce", make_stored_reduce, Bf16::native);
  registry.add("reduce_grad", make_reduce_grad, Bf16::native);
  registry.add("reduce_max_grad", make_reduce_max_grad, Bf16::native);
}

}  // namespace sectionflow
