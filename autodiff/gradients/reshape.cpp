#include "graph/ops/reshape.h"

#include "autodiff/gradient_registry.h"

namespace sectionflow {

void add_reshape_gradients(GradientRegistry& registry) {
  for (const char* name : {"reshape", "flatten"}) {
    registry.add(name, [](const GradientRequest& r) { return std::vector{reshape_like(r.dy(), r.input(0))}; });
  }
}

}  // namespace sectionflow
