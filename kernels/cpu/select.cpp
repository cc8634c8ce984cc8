#include "graph/ops/select.h"

#include "kernels/convert_element.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/formulas/compare.h"
#include "kernels/kernel_registry.h"

namespace sectionflow {
namespace {

std::unique_ptr<Kernel> make_select(const KernelRequest& request) {
  return with_element_type(request.inputs[1].dtype, [&](auto element) {
    using T = decltype(element);
    return broadcast_kernel<T, bool, T, T>(request, formulas::Select());
  });
}

}  // namespace

void add_select_cpu_kernels(KernelRegistry& registry) {
  registry.add("select", make_select, Bf16::native);
}

}  // namespace sectionflow
