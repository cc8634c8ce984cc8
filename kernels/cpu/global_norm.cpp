#include "graph/ops/global_norm.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/fixed_order_reduce.h"
#include "kernels/formulas/global_norm.h"
#include "kernels/function_kernel.h"
#include "kernels/kernel_registry.h"

namespace sectionflow {
namespace {

std::unique_ptr<Kernel> make_global_norm(const KernelRequest& request) {
  std::vector<ReducePlan> plans;
  std::int64_t num_partials = 0;
  for (const TensorType& x : request.inputs) {
    plans.emplace_back(x.shape, std::vector<bool>(static_cast<std::size_t>(x.shape.rank()), true));
    num_partials = std::max(num_partials, plans.back().num_partials());
  }
  return function_kernel(
      [plans](const KernelArguments& arguments) {
        double squares = 0;
        for (std::size_t i = 0; i < plans.size(); ++i) {
          plans[i].run(static_cast<const float*>(arguments.inputs[i]), static_cast<double*>(arguments.workspace),
                       formulas::SquareReducer(), [&](std::int64_t, double sum) { squares += sum; });
        }
        *static_cast<float*>(arguments.outputs[0]) = static_cast<float>(std::sqrt(squares));
      },
      {.workspace_bytes = static_cast<std::size_t>(num_partials) * sizeof(double)});
}

std::unique_ptr<Kernel> make_global_norm_grad(const KernelRequest&) {
  return function_kernel([](const KernelArguments& arguments) {
    *static_cast<float*>(arguments.outputs[0]) = formulas::GlobalNormGrad()(
        *static_cast<const float*>(arguments.inputs[0]), *static_cast<const float*>(arguments.inputs[1]));
  });
}

std::unique_ptr<Kernel> make_clip_scale(const KernelRequest& request) {
  const formulas::ClipScale scale{request.node.options<ClipScaleOptions>().max_norm};
  return function_kernel([scale](const KernelArguments& arguments) {
    *static_cast<float*>(arguments.outputs[0]) = scale(*static_cast<const float*>(arguments.inputs[0]));
  });
}

}  // namespace

void add_global_norm_cpu_kernels(KernelRegistry& registry) {
  registry.add("global_norm", make_global_norm);
  registry.add("global_norm_grad", make_global_norm_grad);
  registry.add("clip_scale", make_clip_scale);
}

}  // namespace sectionflow
