#include <algorithm>
#include <array>
#include <cstdint>

#include "graph/ops/arithmetic.h"
#include "kernels/cuda/broadcast.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/fixed_order_reduce.h"
#include "kernels/formulas/arithmetic.h"
#include "kernels/function_kernel.h"

namespace sectionflow {
namespace {

template <class Formula>
std::unique_ptr<Kernel> make_f32(const KernelRequest& request) {
  if (request.outputs[0].dtype != Dtype::f32) return nullptr;
  return gpu::broadcast_kernel<float, float, float>(request, Formula());
}
/// The same for f32 and i64, which is `Integer` here.
template <class Formula, class Integer>
std::unique_ptr<Kernel> make_number(const KernelRequest& request) {
  if (request.outputs[0].dtype != Dtype::i64) return make_f32<Formula>(request);
  return gpu::broadcast_kernel<Integer, Integer, Integer>(request, Formula());
}
template <class Formula>
std::unique_ptr<Kernel> make_f32_of_three(const KernelRequest& request) {
  return gpu::broadcast_kernel<float, float, float, float>(request, Formula());
}

/// y = ((v0 + v1) + v2) + ..., a pack a thread.
template <int kMost>
struct AddValues {
  static constexpr int kWidth = gpu::pack_width<float>();
  std::array<const float*, kMost> values;
  int num_values;
  float* y;
  std::int64_t count;

  SF_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t first = i * kWidth;
    const float* const* operands = values.data();
    if (first + kWidth > count) {
      for (std::int64_t j = first; j < count; ++j) {
        float sum = operands[0][j];
        for (int k = 1; k < num_values; ++k) sum = sum + operands[k][j];
        y[j] = sum;
      }
      return;
    }
    auto sums = gpu::load_pack<kWidth>(operands[0] + first);
    for (int k = 1; k < num_values; ++k) {
      const auto addends = gpu::load_pack<kWidth>(operands[k] + first);
      for (int lane = 0; lane < kWidth; ++lane) sums.values[lane] = sums.values[lane] + addends.values[lane];
    }
    gpu::store_pack(y + first, sums);
  }
};

/// As many values as fit a launch; more are added to the sum of those before them.
template <int kMost>
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
        float* y = static_cast<float*>(arguments.outputs[0]);
        for (std::size_t next = 0; next < num_inputs;) {
          AddValues<kMost> body{{}, 0, y, count};
          if (next > 0) body.values[body.num_values++] = y;
          while (body.num_values < kMost && next < num_inputs) {
            body.values[body.num_values++] = static_cast<const float*>(arguments.inputs[next++]);
          }
          gpu::launch_each(arguments.queue, gpu::blocks_for(count, AddValues<kMost>::kWidth), body);
        }
      },
      {.in_place = std::move(in_place)});
}

std::unique_ptr<Kernel> make_add_n(const KernelRequest& request) {
  // A table of fewer than 32 addresses, the compiler would copy to the stack of each thread.
  return request.inputs.size() <= 32 ? make_add_n_of<32>(request) : make_add_n_of<256>(request);
}

std::unique_ptr<Kernel> make_reduce_to_like(const KernelRequest& request) {
  const Shape& x_shape = request.inputs[0].shape;
  const Shape& like = request.outputs[0].shape;
  if (x_shape.num_elements() == like.num_elements()) {
    return gpu::copy_kernel(request.outputs[0].bytes());
  }
  std::vector<bool> repeated(static_cast<std::size_t>(x_shape.rank()), true);
  for (int i = 1; i <= like.rank(); ++i) repeated[x_shape.rank() - i] = like[-i] == 1;
  const gpu::ReducePlan plan(x_shape, repeated);
  return function_kernel(
      [plan](const KernelArguments& arguments) {
        plan.run(arguments.queue, static_cast<const float*>(arguments.inputs[0]), arguments.workspace,
                 formulas::SumReducer(), gpu::StoreQuotient{static_cast<float*>(arguments.outputs[0]), 1});
      },
      {.workspace_bytes = plan.workspace_bytes<formulas::SumReducer>()});
}

}  // namespace

void add_arithmetic_cuda_kernels(KernelRegistry& registry) {
  registry.add("add", make_number<formulas::Add, std::uint64_t>);
  registry.add("sub", make_number<formulas::Subtract, std::uint64_t>);
  registry.add("mul", make_number<formulas::Multiply, std::uint64_t>);
  registry.add("div", make_f32<formulas::Divide>);
  registry.add("maximum", make_number<formulas::Maximum, std::int64_t>);
  registry.add("minimum", make_number<formulas::Minimum, std::int64_t>);
  registry.add("maximum_grad", make_f32_of_three<formulas::MaximumGrad>);
  registry.add("minimum_grad", make_f32_of_three<formulas::MinimumGrad>);
  registry.add("pow", make_f32<formulas::Power>);
  registry.add("pow_grad_base", make_f32_of_three<formulas::PowerGradBase>);
  registry.add("pow_grad_exponent", make_f32_of_three<formulas::PowerGradExponent>);
  registry.add("add_n", make_add_n);
  registry.add("reduce_to_like", make_reduce_to_like);
}

}  // namespace sectionflow
