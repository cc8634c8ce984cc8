#include "graph/ops/bias_add.h"

#include "autodiff/gradient_registry.h"

namespace sectionflow {

void add_bias_add_gradients(GradientRegistry& registry) {
  registry.add("bias_add", [](const GradientRequest& r) {
    return std::vector{r.dy(), r.wanted[1] ? bias_add_grad(r.dy(), r.node.options<BiasAddOptions>()) : Value()};
  });
}

}  // namespace sectionflow
