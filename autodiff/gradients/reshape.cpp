#include "graph/ops/reshape.h"

#include "autodiff/gradient_registry.h"

namespace sectionflow {

void add_reshape_gradients(GradientRegistry& registry) {
  for (const char* name : {"reshape", "flatten", "reshape_like"}) {
    registry.add(name, [](const GradientRequest& r) {
      std::vector<Value> gradients(r.wanted.size());
      gradients[0] = reshape_like(r.dy(), r.input(0));
      return gradients;
    });
  }
}

}  // namespace sectionflow
