#include "graph/ops/bias_add.h"

#include "kernels/cpu/columns.h"
#include "kernels/cpu/function_kernel.h"
#include "kernels/kernel_registry.h"

namespace sectionflow {
namespace {

std::unique_ptr<Kernel> make_bias_add(const KernelRequest& request) {
  const Columns columns(request.outputs[0].shape);
  return function_kernel(
      [columns](const KernelArguments& arguments) {
        const auto* x = static_cast<const float*>(arguments.inputs[0]);  // [rows, C]
        auto* y = static_cast<float*>(arguments.outputs[0]);             // [rows, C]
        const LaneValues bias(columns, static_cast<const float*>(arguments.inputs[1]));
        const float* b = bias.data();
        columns.for_each_block([&](std::int64_t block) {
          columns.for_each_strip(block, [&](std::int64_t element, std::int64_t lane, std::int64_t num_lanes) {
#pragma omp simd
            for (std::int64_t i = 0; i < num_lanes; ++i) y[element + i] = x[element + i] + b[lane + i];
          });
        });
      },
      {.in_place = {{.input = 0, .output = 0}}});
}

std::unique_ptr<Kernel> make_bias_add_grad(const KernelRequest& request) {
  const Columns columns(request.inputs[0].shape);
  return function_kernel(
      [columns](const KernelArguments& arguments) {
        const auto* dy = static_cast<const float*>(arguments.inputs[0]);  // [rows, C]
        auto* db = static_cast<float*>(arguments.outputs[0]);             // [C]
        auto* partial = static_cast<float*>(arguments.workspace);         // [blocks, C]
        const std::int64_t channels = columns.channels();
        columns.for_each_block([&](std::int64_t block) {
          columns.sum_block(block, {partial + block * channels},
                            [dy](std::int64_t element, std::int64_t) { return dy[element]; });
        });
        columns.combine_blocks([&](std::int64_t block, std::int64_t c) { return partial[block * channels + c]; },
                               [&](std::int64_t c, double sum) { db[c] = static_cast<float>(sum); });
      },
      {.workspace_bytes = columns.partial_bytes()});
}

}  // namespace

void add_bias_add_cpu_kernels(KernelRegistry& registry) {
  registry.add("bias_add", make_bias_add);
  registry.add("bias_add_grad", make_bias_add_grad);
}

}  // namespace sectionflow
