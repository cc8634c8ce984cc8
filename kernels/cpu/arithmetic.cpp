#include "graph/ops/arithmetic.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>

#include "kernels/cpu/copy_kernel.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/fixed_order_reduce.h"
#include "kernels/function_kernel.h"
#include "kernels/kernel_registry.h"

namespace sectionflow {
namespace {

template <class Function>
std::unique_ptr<Kernel> f32_kernel(const KernelRequest& request, Function function) {
  if (request.outputs[0].dtype != Dtype::f32) return nullptr;
  return broadcast_kernel<float, float, float>(request, function);
}
/// The same for f32 and i64, which is `Integer` here.
template <class Integer, class Function>
std::unique_ptr<Kernel> number_kernel(const KernelRequest& request, Function function) {
  if (request.outputs[0].dtype == Dtype::i64) return broadcast_kernel<Integer, Integer, Integer>(request, function);
  return f32_kernel(request, function);
}

// Unsigned where a result may leave the range: it then wraps around.
std::unique_ptr<Kernel> make_add(const KernelRequest& request) {
  return number_kernel<std::uint64_t>(request, [](auto a, auto b) { return a + b; });
}
std::unique_ptr<Kernel> make_sub(const KernelRequest& request) {
  return number_kernel<std::uint64_t>(request, [](auto a, auto b) { return a - b; });
}
std::unique_ptr<Kernel> make_mul(const KernelRequest& request) {
  return number_kernel<std::uint64_t>(request, [](auto a, auto b) { return a * b; });
}
std::unique_ptr<Kernel> make_div(const KernelRequest& request) {
  return f32_kernel(request, [](float a, float b) { return a / b; });
}

// A NaN on the left is not equal to itself, one on the right is neither less nor greater: both are the result.
std::unique_ptr<Kernel> make_maximum(const KernelRequest& request) {
  return number_kernel<std::int64_t>(request, [](auto a, auto b) { return a > b || a != a ? a : b; });
}
std::unique_ptr<Kernel> make_minimum(const KernelRequest& request) {
  return number_kernel<std::int64_t>(request, [](auto a, auto b) { return a < b || a != a ? a : b; });
}

/// dy where `a` is chosen, half of it where both are equal. NaN passes dy.
std::unique_ptr<Kernel> make_maximum_grad(const KernelRequest& request) {
  return broadcast_kernel<float, float, float, float>(request, [](float dy, float a, float b) {
    const float half = 0.5F * dy;
    return a < b ? 0.0F : (a == b ? half : dy);
  });
}
std::unique_ptr<Kernel> make_minimum_grad(const KernelRequest& request) {
  return broadcast_kernel<float, float, float, float>(request, [](float dy, float a, float b) {
    const float half = 0.5F * dy;
    return a > b ? 0.0F : (a == b ? half : dy);
  });
}

// The library's function, in double: a power of f32 with good last digits takes a logarithm of more digits than f32's,
// and what trains networks are squares and roots, which have ops of their own.
std::unique_ptr<Kernel> make_pow(const KernelRequest& request) {
  return f32_kernel(request, [](float a, float b) {
    return static_cast<float>(std::pow(static_cast<double>(a), static_cast<double>(b)));
  });
}
std::unique_ptr<Kernel> make_pow_grad_base(const KernelRequest& request) {
  return broadcast_kernel<float, float, float, float>(request, [](float dy, float a, float b) {
    if (b == 0.0F) return 0.0F;
    return static_cast<float>(dy * (b * std::pow(static_cast<double>(a), b - 1.0)));
  });
}
std::unique_ptr<Kernel> make_pow_grad_exponent(const KernelRequest& request) {
  return broadcast_kernel<float, float, float, float>(request, [](float dy, float y, float a) {
    if (a == 0.0F && std::isfinite(y)) return 0.0F;
    return static_cast<float>(dy * (y * std::log(static_cast<double>(a))));
  });
}

/// y = ((v0 + v1) + v2) + ..., for `count` elements from `begin` on. The sum grows beside the output, which may lie
/// over any of the values.
void add_values(float* y, std::span<const void* const> values, std::int64_t begin, std::int64_t count, float* sum) {
  const float* first = static_cast<const float*>(values[0]) + begin;
  std::copy(first, first + count, sum);
  for (const void* value : values.subspan(1)) {
    const float* addend = static_cast<const float*>(value) + begin;
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) sum[i] = sum[i] + addend[i];
  }
  std::copy(sum, sum + count, y + begin);
}

std::unique_ptr<Kernel> make_add_n(const KernelRequest& request) {
  const std::int64_t num_elements = request.outputs[0].shape.num_elements();
  std::vector<InPlace> in_place;
  for (int input = 0; input < static_cast<int>(request.inputs.size()); ++input) in_place.push_back({input, 0});
  return function_kernel(
      [num_elements](const KernelArguments& arguments) {
        float* y = static_cast<float*>(arguments.outputs[0]);
        parallel_for(num_elements, kParallelGrain, [&](std::int64_t begin, std::int64_t end) {
          constexpr std::int64_t kStripe = 2048;
          float sum[kStripe];
          for (std::int64_t i = begin; i < end; i += kStripe) {
            add_values(y, arguments.inputs, i, std::min(kStripe, end - i), sum);
          }
        });
      },
      {.in_place = std::move(in_place)});
}

std::unique_ptr<Kernel> make_reduce_to_like(const KernelRequest& request) {
  const Shape& x_shape = request.inputs[0].shape;
  const Shape& like = request.outputs[0].shape;
  if (x_shape.num_elements() == like.num_elements()) {
    return copy_kernel(request.outputs[0].bytes());
  }
  std::vector<bool> repeated(static_cast<std::size_t>(x_shape.rank()), true);
  for (int i = 1; i <= like.rank(); ++i) repeated[x_shape.rank() - i] = like[-i] == 1;
  const ReducePlan plan(x_shape, repeated);
  return function_kernel(
      [plan](const KernelArguments& arguments) {
        float* y = static_cast<float*>(arguments.outputs[0]);
        plan.run(static_cast<const float*>(arguments.inputs[0]), static_cast<double*>(arguments.workspace),
                 SumReducer{}, [=](std::int64_t result, double total) { y[result] = static_cast<float>(total); });
      },
      {.workspace_bytes = static_cast<std::size_t>(plan.num_partials()) * sizeof(double)});
}

}  // namespace

void add_arithmetic_cpu_kernels(KernelRegistry& registry) {
  registry.add("add", make_add);
  registry.add("sub", make_sub);
  registry.add("mul", make_mul);
  registry.add("div", make_div);
  registry.add("maximum", make_maximum);
  registry.add("minimum", make_minimum);
  registry.add("maximum_grad", make_maximum_grad);
  registry.add("minimum_grad", make_minimum_grad);
  registry.add("pow", make_pow);
  registry.add("pow_grad_base", make_pow_grad_base);
  registry.add("pow_grad_exponent", make_pow_grad_exponent);
  registry.add("add_n", make_add_n);
  registry.add("reduce_to_like", make_reduce_to_like);
}

}  // namespace sectionflow
