#include "graph/ops/compare.h"

#include "device/parallel.h"
#include "kernels/cpu/convert_element.h"
#include "kernels/cpu/function_kernel.h"
#include "kernels/kernel_registry.h"

namespace sectionflow {
namespace {

std::unique_ptr<Kernel> make_equal(const KernelRequest& request) {
  const std::int64_t num_elements = request.inputs[0].shape.num_elements();
  return with_element_type(request.inputs[0].dtype, [=](auto element) -> std::unique_ptr<Kernel> {
    using T = decltype(element);
    return function_kernel([num_elements](const KernelArguments& arguments) {
      const T* a = static_cast<const T*>(arguments.inputs[0]);
      const T* b = static_cast<const T*>(arguments.inputs[1]);
      bool* y = static_cast<bool*>(arguments.outputs[0]);
      parallel_for(num_elements, kParallelGrain, [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
        for (std::int64_t i = begin; i < end; ++i) y[i] = a[i] == b[i];
      });
    });
  });
}

}  // namespace

void add_compare_cpu_kernels(KernelRegistry& registry) {
  registry.add("equal", make_equal);
}

}  // namespace sectionflow
