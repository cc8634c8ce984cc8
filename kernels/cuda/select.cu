#include "graph/ops/select.h"
#include "kernels/convert_element.h"
#include "kernels/cuda/broadcast.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/formulas/compare.h"

namespace sectionflow {
namespace {

std::unique_ptr<Kernel> make_select(const KernelRequest& request) {
  return with_element_type(request.inputs[1].dtype, [&](auto element) {
    using T = decltype(element);
    return gpu::broadcast_kernel<T, bool, T, T>(request, formulas::Select());
  });
}

}  // namespace

void add_select_cuda_kernels(KernelRegistry& registry) {
  registry.add("select", make_select, Bf16::native);
}

}  // namespace sectionflow
