#include "graph/ops/compare.h"
#include "kernels/convert_element.h"
#include "kernels/cuda/broadcast.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/formulas/compare.h"

namespace sectionflow {
namespace {

template <class Comparison>
std::unique_ptr<Kernel> make_comparison(const KernelRequest& request) {
  return with_element_type(request.inputs[0].dtype, [&](auto element) {
    using T = decltype(element);
    return gpu::broadcast_kernel<bool, T, T>(request, Comparison());
  });
}

}  // namespace

void add_compare_cuda_kernels(KernelRegistry& registry) {
  registry.add("equal", make_comparison<formulas::Equal>, Bf16::native);
  registry.add("not_equal", make_comparison<formulas::NotEqual>, Bf16::native);
  registry.add("less", make_comparison<formulas::Less>, Bf16::native);
  registry.add("less_equal", make_comparison<formulas::LessEqual>, Bf16::native);
  registry.add("greater", make_comparison<formulas::Greater>, Bf16::native);
  registry.add("greater_equal", make_comparison<formulas::GreaterEqual>, Bf16::native);
}

}  // namespace sectionflow
