#include "autodiff/gradient_registry.h"

namespace sectionflow {

const GradientRegistry& gradient_registry() {
  static const GradientRegistry registry = [] {
    GradientRegistry all;
#define SF_OP_FAMILY(family) add_##family##_gradients(all);
#include "graph/op_list.inc"
#undef SF_OP_FAMILY
    return all;
  }();
  return registry;
}

}  // namespace sectionflow
