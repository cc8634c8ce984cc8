#include "graph/ops/reshape.h"

#include "autodiff/gradient_registry.h"

namespace sectionflow {

void add_reshape_gradients(GradientRegistry& registry) {
  registry.add("reshape", [](const GradientRequest& r) { return std::vector{reshape_like(r.dy(), r.input(0))}; });
}

}  // namespace sectionflow
