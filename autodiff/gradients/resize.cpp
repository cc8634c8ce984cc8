#include "graph/ops/resize.h"

#include "autodiff/gradient_registry.h"

namespace sectionflow {

void add_resize_gradients(GradientRegistry& registry) {
  registry.add("resize2d", [](const GradientRequest& r) {
    return std::vector{resize2d_grad(r.dy(), r.input(0), r.node.options<Resize2dOptions>())};
  });
}

}  // namespace sectionflow
