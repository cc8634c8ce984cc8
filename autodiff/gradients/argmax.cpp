#include "autodiff/gradient_registry.h"

namespace sectionflow {

// An index is constant almost everywhere.
void add_argmax_gradients(GradientRegistry& registry) {
  registry.add_zero("argmax");
}

}  // namespace sectionflow
