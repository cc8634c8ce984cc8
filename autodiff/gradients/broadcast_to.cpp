#include "graph/ops/broadcast_to.h"

#include "autodiff/gradient_registry.h"
#include "graph/ops/arithmetic.h"

namespace sectionflow {

void add_broadcast_to_gradients(GradientRegistry& registry) {
  for (const char* name : {"broadcast_to", "broadcast_like"}) {
    registry.add(name, [](const GradientRequest& r) {
      std::vector<Value> gradients(r.wanted.size());
      gradients[0] = reduce_to_like(r.dy(), r.input(0));
      return gradients;
    });
  }
}

}  // namespace sectionflow
