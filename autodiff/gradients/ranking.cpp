#include "graph/ops/ranking.h"

#include "autodiff/gradient_registry.h"
#include "graph/nodes/ranking.h"

namespace sectionflow {

// Which elements are taken changes in steps.
void add_ranking_gradients(GradientRegistry& registry) {
  registry.add("top_k", [](const GradientRequest& r) {
    return std::vector{take_along_grad(r.dy(), r.node.output(1), r.input(0))};
  });
  registry.add("take_along", [](const GradientRequest& r) {
    return std::vector{take_along_grad(r.dy(), r.input(1), r.input(0)), Value()};
  });
  registry.add("take_along_grad", [](const GradientRequest& r) {
    return std::vector{take_along(r.dy(), r.input(1), {.missing_is_zero = true}), Value(), Value()};
  });
}

}  // namespace sectionflow
