#include "autodiff/pool_gradients.h"

namespace sectionflow {

void add_pool2d_gradients(GradientRegistry& registry) {
  add_pool_gradients(registry, "2d");
}

}  // namespace sectionflow
