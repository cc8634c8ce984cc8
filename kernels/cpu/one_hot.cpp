#include "graph/ops/one_hot.h"

#include <algorithm>

#include "device/parallel.h"
#include "kernels/function_kernel.h"
#include "kernels/kernel_registry.h"

namespace sectionflow {
namespace {

template <class Index>
std::unique_ptr<Kernel> make_one_hot_of(const KernelRequest& request) {
  const std::int64_t count = request.inputs[0].shape.num_elements();
  return function_kernel([count, options = request.node.options<OneHotOptions>()](const KernelArguments& arguments) {
    const Index* indices = static_cast<const Index*>(arguments.inputs[0]);  // [N]
    float* y = static_cast<float*>(arguments.outputs[0]);                   // [N, depth]
    const std::int64_t depth = options.depth;
    parallel_for(count, std::max<std::int64_t>(1, kParallelGrain / depth), [=](std::int64_t begin, std::int64_t end) {
      std::fill(y + begin * depth, y + end * depth, options.off_value);
      for (std::int64_t n = begin; n < end; ++n) {
        const auto index = static_cast<std::int64_t>(indices[n]);
        if (index >= 0 && index < depth) y[n * depth + index] = options.on_value;
      }
    });
  });
}

std::unique_ptr<Kernel> make_one_hot(const KernelRequest& request) {
  return request.inputs[0].dtype == Dtype::i32 ? make_one_hot_of<std::int32_t>(request)
                                               : make_one_hot_of<std::int64_t>(request);
}

}  // namespace

void add_one_hot_cpu_kernels(KernelRegistry& registry) {
  registry.add("one_hot", make_one_hot);
}

}  // namespace sectionflow
