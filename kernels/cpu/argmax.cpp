#include "graph/ops/argmax.h"

#include <algorithm>
#include <cmath>

#include "device/parallel.h"
#include "kernels/function_kernel.h"
#include "kernels/kernel_registry.h"

namespace sectionflow {
namespace {

std::int32_t argmax_of_row(const float* x, std::int64_t num_classes) {
  std::int64_t best = 0;
  for (std::int64_t c = 1; c < num_classes && !std::isnan(x[best]); ++c) {
    // "Not <=" holds for a NaN too; from then on nothing is larger.
    if (!(x[c] <= x[best])) best = c;
  }
  return static_cast<std::int32_t>(best);
}

std::unique_ptr<Kernel> make_argmax(const KernelRequest& request) {
  const std::int64_t num_rows = request.outputs[0].shape.num_elements();
  const std::int64_t num_classes = request.inputs[0].shape[-1];
  return function_kernel([=](const KernelArguments& arguments) {
    const float* x = static_cast<const float*>(arguments.inputs[0]);     // [N, C]
    std::int32_t* y = static_cast<std::int32_t*>(arguments.outputs[0]);  // [N]
    const std::int64_t grain = std::max<std::int64_t>(1, kParallelGrain / num_classes);
    parallel_for(num_rows, grain, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t n = begin; n < end; ++n) y[n] = argmax_of_row(x + n * num_classes, num_classes);
    });
  });
}

}  // namespace

void add_argmax_cpu_kernels(KernelRegistry& registry) {
  registry.add("argmax", make_argmax);
}

}  // namespace sectionflow
