#include "autodiff/gradient_registry.h"

namespace sectionflow {

void add_packed_weights_gradients(GradientRegistry& registry) {
  registry.add_refused("with_packed_weights", "weights are packed for inference",
                       "train the graph that was frozen, and freeze it again");
}

}  // namespace sectionflow
