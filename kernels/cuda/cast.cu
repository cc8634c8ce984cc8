#include <cstdint>

#include "graph/ops/cast.h"
#include "kernels/convert_element.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/function_kernel.h"

namespace sectionflow {
namespace {

template <class To, class From>
struct Convert {
  SF_HOST_DEVICE To operator()(From x) const { return convert_element<To>(x); }
};

template <class From, class To>
std::unique_ptr<Kernel> make_conversion(std::int64_t count) {
  return function_kernel([count](const KernelArguments& arguments) {
    gpu::launch_map<To, From>(arguments.queue, count, Convert<To, From>(), arguments.outputs[0], {arguments.inputs[0]});
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
  registry.add("cast", make_cast);
}

}  // namespace sectionflow
