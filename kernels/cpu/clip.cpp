#include "graph/ops/clip.h"

#include "kernels/cpu/elementwise.h"
#include "kernels/formulas/compare.h"
#include "kernels/kernel_registry.h"

namespace sectionflow {
namespace {

template <class Formula>
std::unique_ptr<Kernel> make(const KernelRequest& request) {
  const auto [low, high] = request.node.options<ClipOptions>();
  return map_kernel(request, Formula{low, high});
}

}  // namespace

void add_clip_cpu_kernels(KernelRegistry& registry) {
  registry.add("clip", make<formulas::Clip>);
  registry.add("clip_grad", make<formulas::ClipGrad>);
}

}  // namespace sectionflow
