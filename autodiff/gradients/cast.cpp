#include "graph/ops/cast.h"

#include "autodiff/gradient_registry.h"

namespace sectionflow {

void add_cast_gradients(GradientRegistry& registry) {
  registry.add("cast", [](const GradientRequest& r) {
    const bool floats = is_floating(r.node.output_types()[0].dtype);
    return std::vector{floats ? cast(r.dy(), r.input(0).dtype()) : Value()};
  });
}

}  // namespace sectionflow
