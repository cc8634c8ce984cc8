#include "graph/ops/cast.h"

#include "device/parallel.h"
#include "kernels/convert_element.h"
#include "kernels/cpu/copy_kernel.h"
#include "kernels/function_kernel.h"
#include "kernels/kernel_registry.h"

namespace sectionflow {
namespace {

template <class From, class To>
std::unique_ptr<Kernel> make_conversion(std::int64_t num_elements) {
  return function_kernel([num_elements](const KernelArguments& arguments) {
    const From* x = static_cast<const From*>(arguments.inputs[0]);
    To* y = static_cast<To*>(arguments.outputs[0]);
    parallel_for(num_elements, kParallelGrain, [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
      for (std::int64_t i = begin; i < end; ++i) y[i] = convert_element<To>(x[i]);
    });
  });
}

std::unique_ptr<Kernel> make_cast(const KernelRequest& request) {
  const Dtype from = request.inputs[0].dtype;
  const Dtype to = request.outputs[0].dtype;
  if (from == to) return copy_kernel(request.outputs[0].bytes());
  // Never in place otherwise: elements of two C++ types in the same bytes would be at the mercy of alias analysis.
  return with_element_type(from, [&](auto from_element) {
    return with_element_type(to, [&](auto to_element) {
      return make_conversion<decltype(from_element), decltype(to_element)>(request.inputs[0].shape.num_elements());
    });
  });
}

}  // namespace

void add_cast_cpu_kernels(KernelRegistry& registry) {
  registry.add("cast", make_cast, Bf16::native);
}

}  // namespace sectionflow
