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
  registry.add("equal", make_comparison<formulas::Equal>);
  registry.add("not_equal", make_comparison<formulas::NotEqual>);
  registry.add("less", make_comparison<formulas::Less>);
  registry.add("less_equal", make_comparison<formulas::LessEqual>);
  registry.add("greater", make_comparison<formulas::Greater>);
  registry.add("greater_equal", make_comparison<formulas::GreaterEqual>);
}

}  // namespace sectionflow
