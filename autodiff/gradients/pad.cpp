#include "graph/ops/pad.h"

#include "autodiff/gradient_registry.h"

namespace sectionflow {

void add_pad_gradients(GradientRegistry& registry) {
  registry.add("pad", [](const GradientRequest& r) {
    return std::vector{pad_grad(r.dy(), r.input(0), r.node.options<PadOptions>())};
  });
}

}  // namespace sectionflow
