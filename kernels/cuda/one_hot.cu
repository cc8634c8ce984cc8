#include <cstdint>

#include "graph/ops/one_hot.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/divisor.h"
#include "kernels/cuda/launch.h"
#include "kernels/function_kernel.h"

namespace sectionflow {
namespace {

template <class Index>
struct OneHot {
  const Index* indices;  // [N]
  float* y;              // [N, depth]
  gpu::Divisor depth;
  float on_value, off_value;

  SF_HOST_DEVICE void operator()(std::int64_t i) const {
    std::int64_t row = i;
    const std::int64_t column = depth.cut(row);
    y[i] = static_cast<std::int64_t>(indices[row]) == column ? on_value : off_value;
  }
};

template <class Index>
std::unique_ptr<Kernel> make_one_hot_of(const KernelRequest& request) {
  return function_kernel([count = request.outputs[0].shape.num_elements(),
                          options = request.node.options<OneHotOptions>()](const KernelArguments& arguments) {
    gpu::launch_each(
        arguments.queue, count,
        OneHot<Index>{static_cast<const Index*>(arguments.inputs[0]), static_cast<float*>(arguments.outputs[0]),
                      gpu::Divisor(options.depth), options.on_value, options.off_value});
  });
}

std::unique_ptr<Kernel> make_one_hot(const KernelRequest& request) {
  return request.inputs[0].dtype == Dtype::i32 ? make_one_hot_of<std::int32_t>(request)
                                               : make_one_hot_of<std::int64_t>(request);
}

}  // namespace

void add_one_hot_cuda_kernels(KernelRegistry& registry) {
  registry.add("one_hot", make_one_hot);
}

}  // namespace sectionflow
