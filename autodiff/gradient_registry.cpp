#include "autodiff/gradient_registry.h"

#include "base/error.h"

namespace sectionflow {

void GradientRegistry::add_refused(const std::string& op, const std::string& why, const std::string& what_to_do) {
  add(op, [why, what_to_do](const GradientRequest& request) -> std::vector<Value> {
    throw ArgumentError(error_text_of("gradients through ", request.node.label(), ": ", why, hint(what_to_do)),
                        ErrorCode::no_gradient_rule);
  });
  entries_[op].is_refused = true;
}

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
