#include "graph/ops/basic.h"

#include <algorithm>

#include "device/parallel.h"
#include "kernels/convert_element.h"
#include "kernels/cpu/copies.h"
#include "kernels/function_kernel.h"
#include "kernels/kernel_registry.h"

namespace sectionflow {
namespace {

std::unique_ptr<Kernel> make_constant(const KernelRequest& request) {
  // Shares the content, so that the kernel may outlive the graph.
  return function_kernel([content = request.node.options<ConstantOptions>().content](const KernelArguments& arguments) {
    copy_bytes(arguments.outputs[0], content->bytes(), content->num_bytes());
  });
}

std::unique_ptr<Kernel> make_fill(const KernelRequest& request) {
  const std::int64_t num_elements = request.outputs[0].shape.num_elements();
  const double value = request.node.options<FillOptions>().value;
  return with_element_type(request.outputs[0].dtype, [=](auto element) -> std::unique_ptr<Kernel> {
    using T = decltype(element);
    return function_kernel([num_elements, filling = convert_element<T>(value)](const KernelArguments& arguments) {
      T* y = static_cast<T*>(arguments.outputs[0]);
      parallel_for(num_elements, kParallelGrain,
                   [=](std::int64_t begin, std::int64_t end) { std::fill(y + begin, y + end, filling); });
    });
  });
}

}  // namespace

void add_basic_cpu_kernels(KernelRegistry& registry) {
  registry.add("constant", make_constant, Bf16::native);
  registry.add("fill", make_fill, Bf16::native);
}

}  // namespace sectionflow
