#include "graph/ops/activation.h"

#include "autodiff/gradient_registry.h"

namespace sectionflow {

// From the output, so that relu may be computed in place.
void add_activation_gradients(GradientRegistry& registry) {
  registry.add("relu", [](const GradientRequest& r) { return std::vector{relu_grad(r.dy(), r.node.output())}; });
}

}  // namespace sectionflow
