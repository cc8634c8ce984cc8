#include "graph/ops/arithmetic.h"

#include <algorithm>
#include <span>
#include <type_traits>

#include "kernels/cpu/broadcast_loop.h"
#include "kernels/cpu/copy_bytes.h"
#include "kernels/cpu/fixed_order_reduce.h"
#include "kernels/cpu/function_kernel.h"
#include "kernels/kernel_registry.h"

namespace sectionflow {
namespace {

struct Add {
  template <class T>
  static T apply(T a, T b) {
    return a + b;
  }
};
struct Sub {
  template <class T>
  static T apply(T a, T b) {
    return a - b;
  }
};
struct Mul {
  template <class T>
  static T apply(T a, T b) {
    return a * b;
  }
};
struct Div {
  template <class T>
  static T apply(T a, T b) {
    return a / b;
  }
};

/// y = a op b along one row; y may lie over an operand that does not repeat.
template <class Op, class T>
void binary_row(T* y, const T* a, const T* b, std::int64_t count, bool repeats_a, bool repeats_b) {
  if (repeats_a) {
    const T scalar = *a;
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) y[i] = Op::apply(scalar, b[i]);
  } else if (repeats_b) {
    const T scalar = *b;
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) y[i] = Op::apply(a[i], scalar);
  } else {
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) y[i] = Op::apply(a[i], b[i]);
  }
}

template <class Op, class T>
std::unique_ptr<Kernel> make_binary_of(const KernelRequest& request) {
  const Shape& a_shape = request.inputs[0].shape;
  const Shape& b_shape = request.inputs[1].shape;
  const Shape& y_shape = request.outputs[0].shape;
  std::vector<InPlace> in_place;
  for (int input : {0, 1}) {
    // As many elements: not repeated.
    if (request.inputs[input].shape.num_elements() == y_shape.num_elements()) in_place.push_back({input, 0});
  }
  const BroadcastLoop<2> loop(y_shape, {broadcast_strides(a_shape, y_shape), broadcast_strides(b_shape, y_shape)});
  return function_kernel(
      [loop](const KernelArguments& arguments) {
        const T* a = static_cast<const T*>(arguments.inputs[0]);
        const T* b = static_cast<const T*>(arguments.inputs[1]);
        T* y = static_cast<T*>(arguments.outputs[0]);
        loop.for_each_row([&](std::int64_t begin, std::int64_t count, const std::array<std::int64_t, 2>& offsets) {
          binary_row<Op>(y + begin, a + offsets[0], b + offsets[1], count, loop.repeats_in_row(0),
                         loop.repeats_in_row(1));
        });
      },
      {.in_place = std::move(in_place)});
}

template <class Op>
std::unique_ptr<Kernel> make_binary(const KernelRequest& request) {
  switch (request.outputs[0].dtype) {
    case Dtype::f32:
      return make_binary_of<Op, float>(request);
    case Dtype::i64:
      // Unsigned, so that a result out of range wraps around.
      if constexpr (!std::is_same_v<Op, Div>) return make_binary_of<Op, std::uint64_t>(request);
      return nullptr;
    default:
      return nullptr;
  }
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
    return function_kernel(
        [num_bytes = request.outputs[0].bytes()](const KernelArguments& arguments) {
          copy_bytes(arguments.outputs[0], arguments.inputs[0], num_bytes);
        },
        {.in_place = {{0, 0}}});
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
  registry.add("add", make_binary<Add>);
  registry.add("sub", make_binary<Sub>);
  registry.add("mul", make_binary<Mul>);
  registry.add("div", make_binary<Div>);
  registry.add("add_n", make_add_n);
  registry.add("reduce_to_like", make_reduce_to_like);
}

}  // namespace sectionflow
