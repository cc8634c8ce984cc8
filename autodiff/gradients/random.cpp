#include "autodiff/gradient_registry.h"

namespace sectionflow {

void add_random_gradients(GradientRegistry& registry) {
  registry.add_zero("random_like");  // reads a shape
  registry.add_zero("categorical");  // gives numbers of classes
}

}  // namespace sectionflow
