#include "graph/ops/bias_add.h"

#include <algorithm>
#include <type_traits>

#include "kernels/cpu/columns.h"
#include "kernels/cpu/planes.h"
#include "kernels/function_kernel.h"
#include "kernels/kernel_registry.h"
#include "kernels/stored_element.h"

namespace sectionflow {
namespace {

/// The bias as floats: where it lies, or widened into workspace.
template <class T>
const float* bias_of(const KernelArguments& arguments, [[maybe_unused]] std::size_t widened_at,
                     [[maybe_unused]] std::int64_t channels) {
  if constexpr (std::is_same_v<T, float>) {
    return static_cast<const float*>(arguments.inputs[1]);
  } else {
    auto* widened = static_cast<float*>(workspace_part(arguments.workspace, widened_at));
    std::copy_n(static_cast<const T*>(arguments.inputs[1]), channels, widened);
    return widened;
  }
}

/// All tensors are stored as T.
template <class T, class Loops>
std::unique_ptr<Kernel> make_bias_add_of(const Loops& loops) {
  WorkspaceLayout workspace;
  std::size_t bias_at = 0;
  if (!std::is_same_v<T, float>) bias_at = workspace.add(static_cast<std::size_t>(loops.channels()) * sizeof(float));
  return function_kernel(
      [loops, bias_at](const KernelArguments& arguments) {
        const auto* x = static_cast<const T*>(arguments.inputs[0]);  // [..., C] or [N, C, ...]
        auto* y = static_cast<T*>(arguments.outputs[0]);             // like x
        const typename Loops::Values bias(loops, bias_of<T>(arguments, bias_at, loops.channels()));
        const float* b = bias.data();
        loops.for_each_run([=](auto step, std::int64_t element, std::int64_t lane, std::int64_t count) {
#pragma omp simd
          for (std::int64_t i = 0; i < count; ++i) {
            y[element + i] = stored<T>(static_cast<float>(x[element + i]) + b[lane + i * step]);
          }
        });
      },
      {.workspace_bytes = workspace.num_bytes(), .in_place = {{.input = 0, .output = 0}}});
}

template <class T, class Loops>
std::unique_ptr<Kernel> make_bias_add_grad_of(const Loops& loops) {
  return function_kernel(
      [loops](const KernelArguments& arguments) {
        const auto* dy = static_cast<const T*>(arguments.inputs[0]);  // [..., C] or [N, C, ...]
        auto* db = static_cast<T*>(arguments.outputs[0]);             // [C]
        auto* partial = static_cast<float*>(arguments.workspace);     // [blocks, C]
        const std::int64_t channels = loops.channels();
        loops.for_each_tile([&](const auto& tile) {
          loops.sum(tile, {partial + tile.block * channels},
                    [dy](std::int64_t element, std::int64_t) { return static_cast<float>(dy[element]); });
        });
        loops.combine([&](std::int64_t block, std::int64_t c) { return partial[block * channels + c]; },
                      [&](std::int64_t c, double sum) { db[c] = stored<T>(static_cast<float>(sum)); });
      },
      {.workspace_bytes = loops.partial_bytes()});
}

std::unique_ptr<Kernel> make_bias_add(const KernelRequest& request) {
  const TensorType& y = request.outputs[0];
  return with_channel_loops(y.shape, request.node.options<BiasAddOptions>().format, [&](const auto& loops) {
    return with_stored_type(y.dtype, [&](auto element) { return make_bias_add_of<decltype(element)>(loops); });
  });
}

std::unique_ptr<Kernel> make_bias_add_grad(const KernelRequest& request) {
  const TensorType& dy = request.inputs[0];
  return with_channel_loops(dy.shape, request.node.options<BiasAddOptions>().format, [&](const auto& loops) {
    return with_stored_type(dy.dtype, [&](auto element) { return make_bias_add_grad_of<decltype(element)>(loops); });
  });
}

}  // namespace

void add_bias_add_cpu_kernels(KernelRegistry& registry) {
  registry.add("bias_add", make_bias_add, Bf16::native);
  registry.add("bias_add_grad", make_bias_add_grad, Bf16::native);
}

}  // namespace sectionflow
