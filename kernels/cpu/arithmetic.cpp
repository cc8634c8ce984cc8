#include "graph/ops/arithmetic.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <type_traits>

#include "base/dtype.h"
#include "kernels/convert_element.h"
#include "kernels/cpu/copies.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/fixed_order_reduce.h"
#include "kernels/formulas/arithmetic.h"
#include "kernels/function_kernel.h"
#include "kernels/kernel_registry.h"
#include "kernels/stored_element.h"

namespace sectionflow {
namespace {

/// A formula of as many floats as there are inputs, all of which are f32 or all bf16.
template <class Formula, class... Float>
std::unique_ptr<Kernel> make_of_floats(const KernelRequest& request) {
  const Dtype dtype = request.outputs[0].dtype;
  if (dtype != Dtype::f32 && dtype != Dtype::bf16) return nullptr;
  return with_stored_type(dtype, [&](auto element) {
    using T = decltype(element);
    return broadcast_kernel<T, std::conditional_t<true, T, Float>...>(request, OfStored<T, Formula>{});
  });
}
template <class Formula>
std::unique_ptr<Kernel> make_of_two(const KernelRequest& request) {
  return make_of_floats<Formula, float, float>(request);
}
template <class Formula>
std::unique_ptr<Kernel> make_of_three(const KernelRequest& request) {
  return make_of_floats<Formula, float, float, float>(request);
}
/// The same for floats, i32 and i64, which are `Narrow` and `Wide` here.
template <class Formula, class Narrow, class Wide>
std::unique_ptr<Kernel> make_number(const KernelRequest& request) {
  const Dtype dtype = request.outputs[0].dtype;
  if (dtype == Dtype::i32) return broadcast_kernel<Narrow, Narrow, Narrow>(request, Formula());
  if (dtype == Dtype::i64) return broadcast_kernel<Wide, Wide, Wide>(request, Formula());
  return make_of_two<Formula>(request);
}

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

template <class Comparison>
std::unique_ptr<Kernel> make_comparison(const KernelRequest& request) {
  return with_element_type(request.inputs[0].dtype, [&](auto element) {
    using T = decltype(element);
    return broadcast_kernel<bool, T, T>(request, Comparison());
  });
}

template <class Formula>
std::unique_ptr<Kernel> make_logical(const KernelRequest& request) {
  return broadcast_kernel<bool, bool, bool>(request, Formula());
}

std::unique_ptr<Kernel> make_select(const KernelRequest& request) {
  return with_element_type(request.inputs[1].dtype, [&](auto element) {
    using T = decltype(element);
    return broadcast_kernel<T, bool, T, T>(request, formulas::Select());
  });
}

}  // namespace

void add_arithmetic_cpu_kernels(KernelRegistry& registry) {
  registry.add("add", make_number<formulas::Add, std::uint32_t, std::uint64_t>, Bf16::native);
  registry.add("sub", make_number<formulas::Subtract, std::uint32_t, std::uint64_t>, Bf16::native);
  registry.add("mul", make_number<formulas::Multiply, std::uint32_t, std::uint64_t>, Bf16::native);
  registry.add("div", make_of_two<formulas::Divide>, Bf16::native);
  registry.add("maximum", make_number<formulas::Maximum, std::int32_t, std::int64_t>, Bf16::native);
  registry.add("minimum", make_number<formulas::Minimum, std::int32_t, std::int64_t>, Bf16::native);
  registry.add("maximum_grad", make_of_three<formulas::MaximumGrad>, Bf16::native);
  registry.add("minimum_grad", make_of_three<formulas::MinimumGrad>, Bf16::native);
  registry.add("pow", make_of_two<formulas::Power>, Bf16::native);
  registry.add("pow_grad_base", make_of_three<formulas::PowerGradBase>, Bf16::native);
  registry.add("pow_grad_exponent", make_of_three<formulas::PowerGradExponent>, Bf16::native);
  registry.add("add_n", make_add_n, Bf16::native);
  registry.add("accumulate", make_accumulate, Bf16::native);
  registry.add("reduce_to_like", make_reduce_to_like, Bf16::native);
  registry.add("equal", make_comparison<formulas::Equal>, Bf16::native);
  registry.add("not_equal", make_comparison<formulas::NotEqual>, Bf16::native);
  registry.add("less", make_comparison<formulas::Less>, Bf16::native);
  registry.add("less_equal", make_comparison<formulas::LessEqual>, Bf16::native);
  registry.add("greater", make_comparison<formulas::Greater>, Bf16::native);
  registry.add("greater_equal", make_comparison<formulas::GreaterEqual>, Bf16::native);
  registry.add("logical_and", make_logical<formulas::And>);
  registry.add("logical_or", make_logical<formulas::Or>);
  registry.add("logical_xor", make_logical<formulas::Xor>);
  registry.add("select", make_select, Bf16::native);
}

}  // namespace sectionflow
