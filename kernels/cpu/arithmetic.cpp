#include "graph/ops/arithmetic.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <type_traits>

#include "base/dtype.h"
#include "kernels/cpu/copies.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/fixed_order_reduce.h"
#include "kernels/elementwise_family.h"
#include "kernels/function_kernel.h"
#include "kernels/stored_element.h"

namespace sectionflow {
namespace {

using Elementwise = ElementwiseFamily<LoopElements>;

/// y = ((v0 + v1) + v2) + ..., for `count` elements from `begin` on, all stored as T. The sum grows in f32 beside the
/// output, which may lie over any of the values.
template <class T>
void add_values(T* y, std::span<const void* const> values, std::int64_t begin, std::int64_t count, float* sum) {
  const T* first = static_cast<const T*>(values[0]) + begin;
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) sum[i] = static_cast<float>(first[i]);
  for (const void* value : values.subspan(1)) {
    const T* addend = static_cast<const T*>(value) + begin;
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) sum[i] = sum[i] + static_cast<float>(addend[i]);
  }
  T* result = y + begin;
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) result[i] = stored<T>(sum[i]);
}

template <class T>
std::unique_ptr<Kernel> make_add_n_of(const KernelRequest& request) {
  const std::int64_t num_elements = request.outputs[0].shape.num_elements();
  std::vector<InPlace> in_place;
  for (int input = 0; input < static_cast<int>(request.inputs.size()); ++input) in_place.push_back({input, 0});
  return function_kernel(
      [num_elements](const KernelArguments& arguments) {
        T* y = static_cast<T*>(arguments.outputs[0]);
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

std::unique_ptr<Kernel> make_add_n(const KernelRequest& request) {
  const bool is_bf16 = request.outputs[0].dtype == Dtype::bf16;
  return is_bf16 ? make_add_n_of<BFloat16>(request) : make_add_n_of<float>(request);
}

template <class Sum, class Part, class Result>
std::unique_ptr<Kernel> make_accumulate_of(const KernelRequest& request) {
  const std::int64_t num_elements = request.outputs[0].shape.num_elements();
  std::vector<InPlace> in_place;
  if (std::is_same_v<Sum, Result>) in_place.push_back({0, 0});
  if (std::is_same_v<Part, Result>) in_place.push_back({1, 0});
  return function_kernel(
      [num_elements](const KernelArguments& arguments) {
        const Sum* sum = static_cast<const Sum*>(arguments.inputs[0]);
        const Part* part = static_cast<const Part*>(arguments.inputs[1]);
        Result* y = static_cast<Result*>(arguments.outputs[0]);
        parallel_for(num_elements, kParallelGrain, [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
          for (std::int64_t i = begin; i < end; ++i) {
            y[i] = stored<Result>(static_cast<float>(sum[i]) + static_cast<float>(part[i]));
          }
        });
      },
      {.in_place = std::move(in_place)});
}

std::unique_ptr<Kernel> make_accumulate(const KernelRequest& request) {
  const bool from_bf16 = request.inputs[0].dtype == Dtype::bf16, to_bf16 = request.outputs[0].dtype == Dtype::bf16;
  // Between widened copies.
  if (request.inputs[1].dtype == Dtype::f32) return make_accumulate_of<float, float, float>(request);
  if (from_bf16 && to_bf16) return make_accumulate_of<BFloat16, BFloat16, BFloat16>(request);
  if (from_bf16) return make_accumulate_of<BFloat16, BFloat16, float>(request);
  if (to_bf16) return make_accumulate_of<float, BFloat16, BFloat16>(request);
  return make_accumulate_of<float, BFloat16, float>(request);
}

/// x and y are stored as T.
template <class T>
std::unique_ptr<Kernel> make_reduce_to_like_of(const KernelRequest& request) {
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
        T* y = static_cast<T*>(arguments.outputs[0]);
        plan.run(static_cast<const T*>(arguments.inputs[0]), static_cast<double*>(arguments.workspace),
                 formulas::SumReducer(),
                 [=](std::int64_t result, double total) { y[result] = stored<T>(static_cast<float>(total)); });
      },
      {.workspace_bytes = static_cast<std::size_t>(plan.num_partials()) * sizeof(double)});
}

std::unique_ptr<Kernel> make_reduce_to_like(const KernelRequest& request) {
  return with_stored_type(request.outputs[0].dtype,
                          [&](auto element) { return make_reduce_to_like_of<decltype(element)>(request); });
}

}  // namespace

void add_arithmetic_cpu_kernels(KernelRegistry& registry) {
  Elementwise::add_arithmetic(registry);
  registry.add("pow", Elementwise::of_two<formulas::Power>, Bf16::native);
  registry.add("pow_grad_base", Elementwise::of_three<formulas::PowerGradBase>, Bf16::native);
  registry.add("pow_grad_exponent", Elementwise::of_three<formulas::PowerGradExponent>, Bf16::native);
  registry.add("add_n", make_add_n, Bf16::native);
  registry.add("accumulate", make_accumulate, Bf16::native);
  registry.add("reduce_to_like", make_reduce_to_like, Bf16::native);
}

}  // namespace sectionflow
