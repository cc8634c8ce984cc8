#include "autodiff/gradient_registry.h"
#include "graph/ops/pool.h"

namespace sectionflow {

void add_pool3d_gradients(GradientRegistry& registry) {
  for (const char* op : {"max_pool3d", "average_pool3d"}) {
    registry.add(op, [](const GradientRequest& r) { return std::vector{pool_grad(r.dy(), r.node)}; });
  }
}

}  // namespace sectionflow
