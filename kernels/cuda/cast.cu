#include <cstdint>

#include "graph/ops/cast.h"
#include "kernels/convert_element.h"
#include "kernels/cuda/bf16_conversions.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/function_kernel.h"

namespace sectionflow {
namespace {

template <class From, class To>
std::unique_ptr<Kernel> make_conversion(std::int64_t count) {
  return function_kernel([count](const KernelArguments& arguments) {
    gpu::launch_conversion<From, To>(arguments.queue, count, arguments.inputs[0], arguments.outputs[0]);
  });
}

std::unique_ptr<Kernel> make_cast(const KernelRequest& request) {
  const Dtype from = request.inputs[0].dtype;
  const Dtype to = request.outputs[0].dtype;
  if (from == to) return gpu::copy_kernel(request.outputs[0].bytes());
  // Never in place otherwise: elements of two C++ types in the same bytes would be at the mercy of alias analysis.
  return with_element_type(from, [&](auto from_element) {
    return with_element_type(to, [&](auto to_element) {
      return make_conversion<decltype(from_element), decltype(to_element)>(request.inputs[0].shape.num_elements());
    });
  });
}

}  // namespace

void add_cast_cuda_kernels(KernelRegistry& registry) {
  registry.add("cast", make_cast, Bf16::native);
}

}  // namespace sectionflow
