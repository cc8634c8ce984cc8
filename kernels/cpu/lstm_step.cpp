#include "graph/ops/lstm_step.h"

#include <algorithm>
#include <vector>

#include "device/parallel.h"
#include "kernels/cpu/wide_vectors.h"
#include "kernels/formulas/lstm_step.h"
#include "kernels/function_kernel.h"
#include "kernels/kernel_registry.h"

namespace sectionflow {
namespace {

/// Columns of rows that are worth a second thread: each takes up to five exponentials.
constexpr std::int64_t kGrain = 2048;

/// `of(arguments)` is what is computed of a column of row 0. `like_cell`: an input [..., H].
template <class Of>
std::unique_ptr<Kernel> row_kernel(const Shape& like_cell, std::vector<InPlace> in_place, const Of& of) {
  const std::int64_t width = like_cell[-1], count = width == 0 ? 0 : like_cell.num_elements() / width;
  return function_kernel(
      [=](const KernelArguments& arguments) {
        const auto first = of(arguments, width);
        const std::int64_t grain = std::max<std::int64_t>(1, kGrain / std::max<std::int64_t>(1, width));
        parallel_for(count, grain, [=](std::int64_t begin, std::int64_t end) {
          in_wide_vectors([=] {
            for (std::int64_t row = begin; row < end; ++row) {
              const auto body = first.at(row);
#pragma omp simd
              for (std::int64_t j = 0; j < width; ++j) body(j);
            }
          });
        });
      },
      {.in_place = std::move(in_place)});
}

std::unique_ptr<Kernel> make_step(const KernelRequest& request) {
  return with_stored_type(request.outputs[0].dtype, [&](auto element) {
    return row_kernel(request.inputs[1].shape, {{0, 2}, {1, 1}},
                      [](const KernelArguments& arguments, std::int64_t width) {
                        return formulas::lstm_step_of<decltype(element)>(arguments, width);
                      });
  });
}

std::unique_ptr<Kernel> make_grad(const KernelRequest& request) {
  return with_stored_type(request.outputs[0].dtype, [&](auto element) {
    return row_kernel(request.inputs[3].shape, {{2, 0}, {1, 1}},
                      [](const KernelArguments& arguments, std::int64_t width) {
                        return formulas::lstm_step_grad_of<decltype(element)>(arguments, width);
                      });
  });
}

}  // namespace

void add_lstm_step_cpu_kernels(KernelRegistry& registry) {
  registry.add("lstm_step", make_step, Bf16::native);
  registry.add("lstm_step_grad", make_grad, Bf16::native);
}

}  // namespace sectionflow
