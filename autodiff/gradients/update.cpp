#include "autodiff/gradient_registry.h"

namespace sectionflow {

// Updates give no value that a loss could depend on.
void add_update_gradients(GradientRegistry&) {}

}  // namespace sectionflow
