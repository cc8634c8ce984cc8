#include "graph/ops/clip.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/formulas/compare.h"

namespace sectionflow {
namespace {

template <class Formula>
std::unique_ptr<Kernel> make(const KernelRequest& request) {
  const auto [low, high] = request.node.options<ClipOptions>();
  return gpu::map_kernel(request, Formula{low, high});
}

}  // namespace

void add_clip_cuda_kernels(KernelRegistry& registry) {
  registry.add("clip", make<formulas::Clip>, Bf16::native);
  registry.add("clip_grad", make<formulas::ClipGrad>, Bf16::native);
}

}  // namespace sectionflow
