#include "graph/ops/compare.h"

#include <functional>

#include "kernels/convert_element.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/kernel_registry.h"

namespace sectionflow {
namespace {

template <class Comparison>
std::unique_ptr<Kernel> make_comparison(const KernelRequest& request) {
  return with_element_type(request.inputs[0].dtype, [&](auto element) {
    using T = decltype(element);
    return broadcast_kernel<bool, T, T>(request, [](T a, T b) { return Comparison()(a, b); });
  });
}

}  // namespace

void add_compare_cpu_kernels(KernelRegistry& registry) {
  registry.add("equal", make_comparison<std::equal_to<>>);
  registry.add("not_equal", make_comparison<std::not_equal_to<>>);
  registry.add("less", make_comparison<std::less<>>);
  registry.add("less_equal", make_comparison<std::less_equal<>>);
  registry.add("greater", make_comparison<std::greater<>>);
  registry.add("greater_equal", make_comparison<std::greater_equal<>>);
}

}  // namespace sectionflow
