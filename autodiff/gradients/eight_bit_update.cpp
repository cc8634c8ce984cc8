#include "autodiff/gradient_registry.h"

namespace sectionflow {

// Updates give no value that a loss could depend on.
void add_eight_bit_update_gradients(GradientRegistry& /*registry*/) {}

}  // namespace sectionflow
