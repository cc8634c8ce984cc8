#include "autodiff/gradient_registry.h"

namespace sectionflow {

// Truth values are constant almost everywhere.
void add_compare_gradients(GradientRegistry& registry) {
  for (const char* op : {"equal", "not_equal", "less", "less_equal", "greater", "greater_equal"}) registry.add_zero(op);
}

}  // namespace sectionflow
