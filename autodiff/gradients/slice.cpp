#include "graph/ops/slice.h"

#include "autodiff/gradient_registry.h"

namespace sectionflow {

void add_slice_gradients(GradientRegistry& registry) {
  registry.add("slice", [](const GradientRequest& r) {
    return std::vector{slice_grad(r.dy(), r.input(0), r.node.options<SliceOptions>())};
  });
  registry.add("slice_grad", [](const GradientRequest& r) {
    return std::vector{slice(r.dy(), r.node.options<SliceOptions>()), Value()};
  });
}

}  // namespace sectionflow
