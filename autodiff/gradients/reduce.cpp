#include "graph/ops/reduce.h"

#include "autodiff/gradient_registry.h"

namespace sectionflow {

void add_reduce_gradients(GradientRegistry& registry) {
  registry.add("reduce", [](const GradientRequest& r) {
    const auto& options = r.node.options<ReduceNodeOptions>();
    return std::vector{options.reduction == Reduction::max
                           ? reduce_max_grad(r.dy(), r.input(0), r.node.output(), options)
                           : reduce_grad(r.dy(), r.input(0), options)};
  });
}

}  // namespace sectionflow
