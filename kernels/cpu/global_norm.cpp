#include "graph/ops/global_norm.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/fixed_order_reduce.h"
#include "kernels/function_kernel.h"
#include "kernels/kernel_registry.h"

namespace sectionflow {
namespace {

/// In double, where the square of an f32 number neither overflows nor vanishes.
struct SquareReducer {
  using Accumulator = double;
  static double start() { return 0; }
  static double term(float x, std::int64_t) { return static_cast<double>(x) * static_cast<double>(x); }
  static double combine(double a, double b) { return a + b; }
};

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
                       SquareReducer{}, [&](std::int64_t, double sum) { squares += sum; });
        }
        *static_cast<float*>(arguments.outputs[0]) = static_cast<float>(std::sqrt(squares));
      },
      {.workspace_bytes = static_cast<std::size_t>(num_partials) * sizeof(double)});
}

/// A kernel on scalars: y = function(inputs).
template <class Function>
std::unique_ptr<Kernel> scalar_kernel(Function function) {
  return function_kernel([function](const KernelArguments& arguments) {
    const auto input = [&](std::size_t i) { return *static_cast<const float*>(arguments.inputs[i]); };
    *static_cast<float*>(arguments.outputs[0]) = function(input);
  });
}

std::unique_ptr<Kernel> make_global_norm_grad(const KernelRequest&) {
  return scalar_kernel([](const auto& input) {
    const float dy = input(0), norm = input(1);
    return norm == 0 ? 0.0F : dy / norm;
  });
}

std::unique_ptr<Kernel> make_clip_scale(const KernelRequest& request) {
  return scalar_kernel([max_norm = request.node.options<ClipScaleOptions>().max_norm](const auto& input) {
    const float norm = input(0);
    return std::isfinite(norm) ? max_norm / std::max(norm, max_norm) : std::numeric_limits<float>::quiet_NaN();
  });
}

}  // namespace

void add_global_norm_cpu_kernels(KernelRegistry& registry) {
  registry.add("global_norm", make_global_norm);
  registry.add("global_norm_grad", make_global_norm_grad);
  registry.add("clip_scale", make_clip_scale);
}

}  // namespace sectionflow
