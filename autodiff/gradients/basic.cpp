#include "autodiff/gradient_registry.h"

namespace sectionflow {

// Placeholders, variables and constants have no inputs.
void add_basic_gradients(GradientRegistry&) {}

}  // namespace sectionflow
