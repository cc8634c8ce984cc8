#include "graph/ops/clip.h"

#include "kernels/cpu/elementwise.h"
#include "kernels/kernel_registry.h"

namespace sectionflow {
namespace {

std::unique_ptr<Kernel> make_clip(const KernelRequest& request) {
  const auto [low, high] = request.node.options<ClipOptions>();
  return map_kernel(request, [low = low, high = high](float x) { return x < low ? low : (x > high ? high : x); });
}

std::unique_ptr<Kernel> make_clip_grad(const KernelRequest& request) {
  const auto [low, high] = request.node.options<ClipOptions>();
  return map_kernel(request, [low = low, high = high](float dy, float x) {
    const float passed = x <= high ? dy : 0.0F;
    return x >= low ? passed : 0.0F;
  });
}

}  // namespace

void add_clip_cpu_kernels(KernelRegistry& registry) {
  registry.add("clip", make_clip);
  registry.add("clip_grad", make_clip_grad);
}

}  // namespace sectionflow
