#include "graph/ops/gather.h"

#include "autodiff/gradient_registry.h"

namespace sectionflow {

void add_gather_gradients(GradientRegistry& registry) {
  registry.add("gather", [](const GradientRequest& r) {
    return std::vector{gather_grad(r.dy(), r.input(1), r.input(0)), Value()};
  });
  registry.add("gather_grad", [](const GradientRequest& r) {
    return std::vector{gather(r.dy(), r.input(1)), Value(), Value()};
  });
}

}  // namespace sectionflow
