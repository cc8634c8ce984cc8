#include "autodiff/gradient_registry.h"
#include "graph/ops/pool.h"

namespace sectionflow {

void add_pool2d_gradients(GradientRegistry& registry) {
  for (const char* op : {"max_pool2d", "average_pool2d"}) {
    registry.add(op, [](const GradientRequest& r) { return std::vector{pool_grad(r.dy(), r.node)}; });
  }
}

}  // namespace sectionflow
