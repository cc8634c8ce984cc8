#include <algorithm>
#include <array>
#include <cstdint>
#include <type_traits>

#include "graph/ops/arithmetic.h"
#include "kernels/cuda/chain.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/fixed_order_reduce.h"
#include "kernels/elementwise_family.h"
#include "kernels/function_kernel.h"

namespace sectionflow {
namespace {

// Powers are rare, and not worth kernels twice: their bf16 is widened.
template <class Formula, class... Float>
std::unique_ptr<Kernel> make_power(const KernelRequest& request) {
  return gpu::broadcast_kernel<float, Float...>(request, Formula());
}

/// y = ((v0 + v1) + v2) + ..., a pack a thread.
template <class T, int kMost>
struct AddValues {
  static constexpr int kWidth = gpu::pack_width<T>();
  std::array<const T*, kMost> values;
  int num_values;
  T* y;
  std::int64_t count;

  SF_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t first = i * kWidth;
    const T* const* operands = values.data();
    if (first + kWidth > count) {
      for (std::int64_t j = first; j < count; ++j) {
        float sum = operands[0][j];
        for (int k = 1; k < num_values; ++k) sum = sum + static_cast<float>(operands[k][j]);
        y[j] = static_cast<T>(sum);
      }
      return;
    }
    auto pack = gpu::load_pack<kWidth>(operands[0] + first);
    float sums[kWidth];
    for (int lane = 0; lane < kWidth; ++lane) sums[lane] = pack.values[lane];
    for (int k = 1; k < num_values; ++k) {
      pack = gpu::load_pack<kWidth>(operands[k] + first);
      for (int lane = 0; lane < kWidth; ++lane) sums[lane] = sums[lane] + static_cast<float>(pack.values[lane]);
    }
    for (int lane = 0; lane < kWidth; ++lane) pack.values[lane] = static_cast<T>(sums[lane]);
    gpu::store_pack(y + first, pack);
  }
};

/// As many values as fit a launch; more are added to the sum of those before them, which must therefore be f32.
template <class T, int kMost>
std::unique_ptr<Kernel> make_add_n_of(const KernelRequest& request) {
  const std::int64_t count = request.outputs[0].shape.num_elements();
  const std::size_t num_inputs = request.inputs.size();
  // Where there are several launches, the first would write over a value that a later one reads.
  std::vector<InPlace> in_place;
  for (int input = 0; num_inputs <= kMost && input < static_cast<int>(num_inputs); ++input) {
    in_place.push_back({input, 0});
  }
  return function_kernel(
      [count, num_inputs](const KernelArguments& arguments) {
        T* y = static_cast<T*>(arguments.outputs[0]);
        for (std::size_t next = 0; next < num_inputs;) {
          AddValues<T, kMost> body{{}, 0, y, count};
          if (next > 0) body.values[body.num_values++] = y;
          while (body.num_values < kMost && next < num_inputs) {
            body.values[body.num_values++] = static_cast<const T*>(arguments.inputs[next++]);
          }
          gpu::launch_each(arguments.queue, gpu::blocks_for(count, AddValues<T, kMost>::kWidth), body);
        }
      },
      {.in_place = std::move(in_place)});
}

std::unique_ptr<Kernel> make_add_n(const KernelRequest& request) {
  constexpr int kMost = 256;
  const std::size_t num_inputs = request.inputs.size();
  if (request.outputs[0].dtype == Dtype::bf16 && num_inputs > kMost) return nullptr;
  return with_stored_type(request.outputs[0].dtype, [&](auto element) {
    using T = decltype(element);
    // A table of fewer than 32 addresses, the compiler would copy to the stack of each thread.
    if (num_inputs > 32) return make_add_n_of<T, kMost>(request);
    auto kernel = make_add_n_of<T, 32>(request);
    return num_inputs == 2 ? gpu::linked<formulas::Add>(request, std::move(kernel)) : std::move(kernel);
  });
}

/// sum + part, rounded once to what is stored.
template <class Result>
struct Accumulate {
  template <class Sum, class Part>
  SF_HOST_DEVICE Result operator()(Sum sum, Part part) const {
    return static_cast<Result>(static_cast<float>(sum) + static_cast<float>(part));
  }
};

template <class Sum, class Part, class Result>
std::unique_ptr<Kernel> make_accumulate_of(const KernelRequest& request) {
  const std::int64_t count = request.outputs[0].shape.num_elements();
  std::vector<InPlace> in_place;
  if (std::is_same_v<Sum, Result>) in_place.push_back({0, 0});
  if (std::is_same_v<Part, Result>) in_place.push_back({1, 0});
  return function_kernel(
      [count](const KernelArguments& arguments) {
        gpu::launch_map<Result, Sum, Part>(arguments.queue, count, Accumulate<Result>(), arguments.outputs[0],
                                           {arguments.inputs[0], arguments.inputs[1]});
      },
      {.in_place = std::move(in_place)});
}

std::unique_ptr<Kernel> make_accumulate(const KernelRequest& request) {
  // Between widened copies.
  if (request.inputs[1].dtype == Dtype::f32) return make_accumulate_of<float, float, float>(request);
  return with_stored_type(request.inputs[0].dtype, [&](auto sum) {
    return with_stored_type(request.outputs[0].dtype, [&](auto result) {
      return make_accumulate_of<decltype(sum), BFloat16, decltype(result)>(request);
    });
  });
}

std::unique_ptr<Kernel> make_reduce_to_like(const KernelRequest& request) {
  const TensorType& x_type = request.inputs[0];
  const Shape& x_shape = x_type.shape;
  const Shape& like = request.outputs[0].shape;
  if (x_shape.num_elements() == like.num_elements()) {
    return gpu::copy_kernel(request.outputs[0].bytes());
  }
  std::vector<bool> repeated(static_cast<std::size_t>(x_shape.rank()), true);
  for (int i = 1; i <= like.rank(); ++i) repeated[x_shape.rank() - i] = like[-i] == 1;
  const gpu::ReducePlan plan(x_shape, repeated);
  return gpu::sum_kernel(plan, x_type.dtype, 1);
}

}  // namespace

void add_arithmetic_cuda_kernels(KernelRegistry& registry) {
  ElementwiseFamily<gpu::LinkedElements>::add_arithmetic(registry);
  registry.add("pow", make_power<formulas::Power, float, float>);
  registry.add("pow_grad_base", make_power<formulas::PowerGradBase, float, float, float>);
  registry.add("pow_grad_exponent", make_power<formulas::PowerGradExponent, float, float, float>);
  registry.add("add_n", make_add_n, Bf16::native);
  registry.add("accumulate", make_accumulate, Bf16::native);
  registry.add("reduce_to_like", make_reduce_to_like, Bf16::native);
}

}  // namespace sectionflow
