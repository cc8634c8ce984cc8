#include "autodiff/gradient_registry.h"

namespace sectionflow {

// Truth values have no gradient.
void add_compare_gradients(GradientRegistry&) {}

}  // namespace sectionflow
