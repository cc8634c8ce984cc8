#include "graph/ops/softmax.h"

#include "autodiff/gradient_registry.h"

namespace sectionflow {

// From the output, so that both may be computed in place.
void add_softmax_gradients(GradientRegistry& registry) {
  registry.add("softmax", [](const GradientRequest& r) { return std::vector{softmax_grad(r.dy(), r.node.output())}; });
  registry.add("log_softmax",
               [](const GradientRequest& r) { return std::vector{log_softmax_grad(r.dy(), r.node.output())}; });
}

}  // namespace sectionflow
