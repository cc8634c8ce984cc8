#include "graph/ops/one_hot.h"

#include "autodiff/gradient_registry.h"

namespace sectionflow {

void add_one_hot_gradients(GradientRegistry&) {}

}  // namespace sectionflow
