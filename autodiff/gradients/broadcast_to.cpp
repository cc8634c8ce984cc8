#include "graph/ops/broadcast_to.h"

#include "autodiff/gradient_registry.h"
#include "graph/ops/arithmetic.h"

namespace sectionflow {

void add_broadcast_to_gradients(GradientRegistry& registry) {
  registry.add("broadcast_to",
               [](const GradientRequest& r) { return std::vector{reduce_to_like(r.dy(), r.input(0))}; });
}

}  // namespace sectionflow
