#include "autodiff/pool_gradients.h"

namespace sectionflow {

void add_pool3d_gradients(GradientRegistry& registry) {
  add_pool_gradients(registry, "3d");
}

}  // namespace sectionflow
