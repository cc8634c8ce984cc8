#include "graph/ops/pad.h"

#include <utility>

#include "autodiff/gradient_registry.h"

namespace sectionflow {

void add_pad_gradients(GradientRegistry& registry) {
  registry.add("pad", [](const GradientRequest& r) {
    return std::vector{pad_grad(r.dy(), r.input(0), r.node.options<PadOptions>())};
  });
  registry.add("pad_grad", [](const GradientRequest& r) {
    PadOptions options = r.node.options<PadOptions>();
    options.value = 0;
    return std::vector{pad(r.dy(), std::move(options)), Value()};
  });
}

}  // namespace sectionflow
