#include "graph/ops/one_hot.h"

#include "autodiff/gradient_registry.h"

namespace sectionflow {

// It reads numbers of classes.
void add_one_hot_gradients(GradientRegistry& registry) {
  registry.add_zero("one_hot");
}

}  // namespace sectionflow
