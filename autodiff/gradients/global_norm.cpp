#include "graph/ops/global_norm.h"

#include "autodiff/gradient_registry.h"
#include "graph/ops/arithmetic.h"

namespace sectionflow {

void add_global_norm_gradients(GradientRegistry& registry) {
  registry.add("global_norm", [](const GradientRequest& r) {
    const Value factor = global_norm_grad(r.dy(), r.node.output());
    std::vector<Value> result;
    for (std::size_t i = 0; i < r.wanted.size(); ++i) {
      result.push_back(r.wanted[i] ? mul(r.input(static_cast<int>(i)), factor) : Value());
    }
    return result;
  });
  registry.add("clip_scale", [](const GradientRequest& r) -> std::vector<Value> {
    throw ArgumentError(
        text_of(r.node.label(),
                ": a loss that depends on clipped gradients has no gradient; use the gradients from before clipping"));
  });
}

}  // namespace sectionflow
