#include "graph/ops/activation.h"

#include "device/parallel.h"
#include "kernels/cpu/function_kernel.h"
#include "kernels/kernel_registry.h"

namespace sectionflow {
namespace {

std::unique_ptr<Kernel> make_relu(const KernelRequest& request) {
  const std::int64_t count = request.outputs[0].shape.num_elements();
  return function_kernel(
      [count](const KernelArguments& arguments) {
        const auto* x = static_cast<const float*>(arguments.inputs[0]);
        auto* y = static_cast<float*>(arguments.outputs[0]);
        // NaN passes, since it is not <= 0.
        parallel_for(count, kParallelGrain, [&](std::int64_t begin, std::int64_t end) {
#pragma omp simd
          for (std::int64_t i = begin; i < end; ++i) y[i] = x[i] <= 0.0F ? 0.0F : x[i];
        });
      },
      {.in_place = {{.input = 0, .output = 0}}});
}

std::unique_ptr<Kernel> make_relu_grad(const KernelRequest& request) {
  if (request.inputs[1].dtype != Dtype::f32) return nullptr;
  const std::int64_t count = request.outputs[0].shape.num_elements();
  return function_kernel(
      [count](const KernelArguments& arguments) {
        const auto* dy = static_cast<const float*>(arguments.inputs[0]);
        const auto* y = static_cast<const float*>(arguments.inputs[1]);
        auto* dx = static_cast<float*>(arguments.outputs[0]);
        parallel_for(count, kParallelGrain, [&](std::int64_t begin, std::int64_t end) {
#pragma omp simd
          for (std::int64_t i = begin; i < end; ++i) {
            const float passed = dy[i];  // loaded whatever y is: a conditional load would be a branch
            dx[i] = y[i] > 0.0F ? passed : 0.0F;
          }
        });
      },
      {.in_place = {{.input = 0, .output = 0}, {.input = 1, .output = 0}}});
}

}  // namespace

void add_activation_cpu_kernels(KernelRegistry& registry) {
  registry.add("relu", make_relu);
  registry.add("relu_grad", make_relu_grad);
}

}  // namespace sectionflow
