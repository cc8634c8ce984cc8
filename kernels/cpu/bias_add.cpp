#include "graph/ops/bias_add.h"

#include "kernels/cpu/columns.h"
#include "kernels/cpu/planes.h"
#include "kernels/function_kernel.h"
#include "kernels/kernel_registry.h"

namespace sectionflow {
namespace {

template <class Loops>
std::unique_ptr<Kernel> make_bias_add_of(const Loops& loops) {
  return function_kernel(
      [loops](const KernelArguments& arguments) {
        const auto* x = static_cast<const float*>(arguments.inputs[0]);  // [..., C] or [N, C, ...]
        auto* y = static_cast<float*>(arguments.outputs[0]);             // like x
        const typename Loops::Values bias(loops, static_cast<const float*>(arguments.inputs[1]));
        const float* b = bias.data();
        loops.for_each_run([=](auto step, std::int64_t element, std::int64_t lane, std::int64_t count) {
#pragma omp simd
          for (std::int64_t i = 0; i < count; ++i) y[element + i] = x[element + i] + b[lane + i * step];
        });
      },
      {.in_place = {{.input = 0, .output = 0}}});
}

template <class Loops>
std::unique_ptr<Kernel> make_bias_add_grad_of(const Loops& loops) {
  return function_kernel(
      [loops](const KernelArguments& arguments) {
        const auto* dy = static_cast<const float*>(arguments.inputs[0]);  // [..., C] or [N, C, ...]
        auto* db = static_cast<float*>(arguments.outputs[0]);             // [C]
        auto* partial = static_cast<float*>(arguments.workspace);         // [blocks, C]
        const std::int64_t channels = loops.channels();
        loops.for_each_tile([&](const auto& tile) {
          loops.sum(tile, {partial + tile.block * channels},
                    [dy](std::int64_t element, std::int64_t) { return dy[element]; });
        });
        loops.combine([&](std::int64_t block, std::int64_t c) { return partial[block * channels + c]; },
                      [&](std::int64_t c, double sum) { db[c] = static_cast<float>(sum); });
      },
      {.workspace_bytes = loops.partial_bytes()});
}

std::unique_ptr<Kernel> make_bias_add(const KernelRequest& request) {
  return with_channel_loops(request.outputs[0].shape, request.node.options<BiasAddOptions>().format,
                            [](const auto& loops) { return make_bias_add_of(loops); });
}

std::unique_ptr<Kernel> make_bias_add_grad(const KernelRequest& request) {
  return with_channel_loops(request.inputs[0].shape, request.node.options<BiasAddOptions>().format,
                            [](const auto& loops) { return make_bias_add_grad_of(loops); });
}

}  // namespace

void add_bias_add_cpu_kernels(KernelRegistry& registry) {
  registry.add("bias_add", make_bias_add);
  registry.add("bias_add_grad", make_bias_add_grad);
}

}  // namespace sectionflow
