#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "device/parallel.h"
#include "kernels/cpu/broadcast_loop.h"
#include "kernels/cpu/lines_ahead.h"
#include "kernels/cpu/wide_vectors.h"
#include "kernels/function_kernel.h"
#include "kernels/stored_element.h"

namespace sectionflow {

/// y[i] = function(x[i]...), a function of floats, for tensors of one shape that are stored as T, one x an input.
/// `function` is arithmetic that vectorises (no branches, no library calls but std::sqrt); y may lie over any of the
/// inputs.
template <class T, class Function, std::size_t... k>
std::unique_ptr<Kernel> map_kernel_of(std::int64_t num_elements, const Function& function, std::index_sequence<k...>) {
  return function_kernel(
      [=](const KernelArguments& arguments) {
        const std::array<const T*, sizeof...(k)> inputs = {static_cast<const T*>(arguments.inputs[k])...};
        T* y = static_cast<T*>(arguments.outputs[0]);
        parallel_for(num_elements, kParallelGrain, [&](std::int64_t begin, std::int64_t end) {
          [=](auto... x) {
            in_wide_vectors([=] {
              const auto step = [=](std::int64_t first, auto count) {
                write_elements(y + first, count,
                               [=](std::int64_t i) { return function(static_cast<float>(x[first + i])...); });
              };
              in_steps(begin, end, step, x..., y);
            });
          }(inputs[k]...);
        });
      },
      {.in_place = {{.input = static_cast<int>(k), .output = 0}...}});
}
/// For f32 and bf16.
template <class Function>
std::unique_ptr<Kernel> map_kernel(const KernelRequest& request, const Function& function) {
  constexpr std::size_t kOperands = std::is_invocable_v<Function, float> ? 1 : 2;
  const std::int64_t num_elements = request.outputs[0].shape.num_elements();
  return with_stored_type(request.outputs[0].dtype, [&](auto element) {
    return map_kernel_of<decltype(element)>(num_elements, function, std::make_index_sequence<kOperands>());
  });
}

/// The elements of one operand along a row: one after the other, or the first again and again.
template <class T, bool kRepeats>
struct RowOperand {
  const T* data;
  T first;

  explicit RowOperand(const T* row) : data(row), first(kRepeats ? *row : T{}) {}
  T operator[](std::int64_t i) const {
    if constexpr (kRepeats) {
      return first;
    } else {
      return data[i];
    }
  }
};

/// visit(std::bool_constant...) for booleans: one loop for each combination.
template <class Visit>
void with_constants(const Visit& visit) {
  visit();
}
template <class Visit, class... Others>
void with_constants(const Visit& visit, bool first, Others... rest) {
  if (first) {
    with_constants([&](auto... others) { visit(std::true_type(), others...); }, rest...);
  } else {
    with_constants([&](auto... others) { visit(std::false_type(), others...); }, rest...);
  }
}

/// y[i] = function(x[i]...) with inputs of the element types X... that are broadcast to y's shape. y may lie over an
/// input of y's type that is not repeated.
template <class Y, class... X, class Function, std::size_t... k>
std::unique_ptr<Kernel> broadcast_kernel(const KernelRequest& request, Function function, std::index_sequence<k...>) {
  constexpr int kOperands = sizeof...(X);
  const TensorType& y_type = request.outputs[0];
  std::vector<InPlace> in_place;
  for (int input = 0; input < kOperands; ++input) {
    const TensorType& type = request.inputs[input];
    // As many elements: not repeated.
    const bool fits = type.dtype == y_type.dtype && type.shape.num_elements() == y_type.shape.num_elements();
    if (fits) in_place.push_back({input, 0});
  }
  const BroadcastLoop<kOperands> loop(y_type.shape, {broadcast_strides(request.inputs[k].shape, y_type.shape)...});
  return function_kernel(
      [=](const KernelArguments& arguments) {
        Y* y = static_cast<Y*>(arguments.outputs[0]);
        loop.for_each_row([&](std::int64_t begin, std::int64_t count, const auto& offsets) {
          const auto row = [&](auto... repeats) {
            [=, y_row = y + begin](auto... x) {
#pragma omp simd
              for (std::int64_t i = 0; i < count; ++i) y_row[i] = function(x[i]...);
            }(RowOperand<X, repeats>(static_cast<const X*>(arguments.inputs[k]) + offsets[k])...);
          };
          with_constants(row, loop.repeats_in_row(k)...);
        });
      },
      {.in_place = std::move(in_place)});
}
template <class Y, class... X, class Function>
std::unique_ptr<Kernel> broadcast_kernel(const KernelRequest& request, Function function) {
  return broadcast_kernel<Y, X...>(request, function, std::index_sequence_for<X...>());
}

/// What ElementwiseFamily asks of loops over elements, but for the kernels of one file.
struct LoopElements {
  template <class Formula>
  static std::unique_ptr<Kernel> map(const KernelRequest& request, const Formula& formula) {
    return map_kernel(request, formula);
  }
  template <class Y, class... X, class Function>
  static std::unique_ptr<Kernel> broadcast(const KernelRequest& request, Function function) {
    return broadcast_kernel<Y, X...>(request, function);
  }
  template <class Formula>
  static std::unique_ptr<Kernel> linked(const KernelRequest&, std::unique_ptr<Kernel> kernel) {
    return kernel;
  }
};

}  // namespace sectionflow
