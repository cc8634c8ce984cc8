#include "graph/ops/stop_gradient.h"

#include "autodiff/gradient_registry.h"

namespace sectionflow {

void add_stop_gradient_gradients(GradientRegistry& registry) {
  registry.add_zero("stop_gradient");
}

}  // namespace sectionflow
