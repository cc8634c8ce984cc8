#include "graph/ops/resize.h"

#include "autodiff/gradient_registry.h"
#include "graph/nodes/resize.h"

namespace sectionflow {

void add_resize_gradients(GradientRegistry& registry) {
  registry.add("resize2d", [](const GradientRequest& r) {
    return std::vector{resize2d_grad(r.dy(), r.input(0), r.node.options<Resize2dOptions>())};
  });
  registry.add("resize2d_grad", [](const GradientRequest& r) {
    return std::vector{resize2d(r.dy(), r.node.options<Resize2dOptions>()), Value()};
  });
}

}  // namespace sectionflow
