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

std::unique_ptr<Kernel> make_sum(const gpu::ReducePlan& plan, double divisor) {
  return function_kernel(
      [plan, divisor](const KernelArguments& arguments) {
        plan.run(arguments.queue, static_cast<const float*>(arguments.inputs[0]), arguments.workspace,
                 formulas::SumReducer(), gpu::StoreQuotient{static_cast<float*>(arguments.outputs[0]), divisor});
      },
      {.workspace_bytes = plan.workspace_bytes<formulas::SumReducer>()});
}

std::unique_ptr<Kernel> make_max(const gpu::ReducePlan& plan) {
  return function_kernel(
      [plan](const KernelArguments& arguments) {
        plan.run(arguments.queue, static_cast<const float*>(arguments.inputs[0]), arguments.workspace,
                 formulas::MaxReducer(), gpu::StoreTotal<float>{static_cast<float*>(arguments.outputs[0])});
      },
      {.workspace_bytes = plan.workspace_bytes<formulas::MaxReducer>()});
}

std::unique_ptr<Kernel> make_reduce_grad(const KernelRequest& request) {
  const Shape& x = request.inputs[1].shape;
  const std::vector<bool> reduced = reduced_axes_of(request, x);
  const bool is_mean = request.node.options<ReduceNodeOptions>().reduction == Reduction::mean;
  const float divisor = is_mean ? static_cast<float>(gpu::ReducePlan(x, reduced).num_reduced()) : 1.0F;
  const gpu::Broadcast<float, float> repeated(x, {kept_strides(x, reduced)});
  return function_kernel([repeated, divisor](const KernelArguments& arguments) {
    repeated.launch(arguments.queue, formulas::DivideBy{divisor}, arguments.outputs[0], {arguments.inputs[0]});
  });
}

/// shares[result] = dy / how many elements are the maximum.
struct StoreShare {
  const float* dy;
  float* shares;
  SF_HOST_DEVICE void operator()(std::int64_t result, double count) const {
    shares[result] = static_cast<float>(dy[result] / count);
  }
};

std::unique_ptr<Kernel> make_reduce_max_grad(const KernelRequest& request) {
  const Shape& x = request.inputs[1].shape;
  const std::vector<bool> reduced = reduced_axes_of(request, x);
  const std::vector<std::int64_t> dense = kept_strides(x, std::vector<bool>(reduced.size(), false));
  const std::vector<std::int64_t> kept = kept_strides(x, reduced);
  const gpu::ReducePlan plan(x, reduced);
  const gpu::Broadcast<float, float, float, float> give(x, {dense, kept, kept});
  const std::size_t partial_bytes = round_up(plan.workspace_bytes<formulas::MaximaReducer>(), kBufferAlignment);
  const std::size_t share_bytes = static_cast<std::size_t>(plan.num_results()) * sizeof(float);
  return function_kernel(
      [=](const KernelArguments& arguments) {
        const auto* dy = static_cast<const float*>(arguments.inputs[0]);
        const auto* y = static_cast<const float*>(arguments.inputs[2]);
        auto* shares = reinterpret_cast<float*>(static_cast<std::byte*>(arguments.workspace) + partial_bytes);
        plan.run(arguments.queue, static_cast<const float*>(arguments.inputs[1]), arguments.workspace,
                 formulas::MaximaReducer{y}, StoreShare{dy, shares});
        give.launch(arguments.queue, formulas::ShareOfMaximum(), arguments.outputs[0],
                    {arguments.inputs[1], y, shares});
      },
      {.workspace_bytes = partial_bytes + share_bytes, .in_place = {{1, 0}}});
}

}  // namespace

void add_reduce_cuda_kernels(KernelRegistry& registry) {
  registry.add("reduce", make_reduce<gpu::ReducePlan, make_sum, make_max>);
  registry.add("reduce_grad", make_reduce_grad);
  registry.add("reduce_max_grad", make_reduce_max_grad);
}

}  // namespace sectionflow
