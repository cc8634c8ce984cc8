#include "graph/ops/dropout.h"

#include "autodiff/gradient_registry.h"

namespace sectionflow {

void add_dropout_gradients(GradientRegistry& registry) {
  registry.add("dropout", [](const GradientRequest& r) {
    return std::vector{dropout_grad(r.dy(), r.input(1), r.node), Value()};
  });
  // The same elements once more.
  registry.add("dropout_grad", [](const GradientRequest& r) {
    return std::vector{dropout_grad(r.dy(), r.input(1), r.node.options<DropoutGradOptions>()), Value()};
  });
}

}  // namespace sectionflow
