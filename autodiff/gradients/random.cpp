#include "autodiff/gradient_registry.h"

namespace sectionflow {

// Random numbers depend on no input.
void add_random_gradients(GradientRegistry&) {}

}  // namespace sectionflow
