#include "graph/ops/cast.h"

#include "autodiff/gradient_registry.h"

namespace sectionflow {

// What a cast to integers or booleans gives carries no gradient, so that none comes back to it.
void add_cast_gradients(GradientRegistry& registry) {
  registry.add("cast", [](const GradientRequest& r) { return std::vector{cast(r.dy(), r.input(0).dtype())}; });
}

}  // namespace sectionflow
