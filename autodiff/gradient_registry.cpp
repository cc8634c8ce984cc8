#include "autodiff/gradient_registry.h"

#include "autodiff/registration.h"
#include "base/error.h"

namespace sectionflow {

// One function a family, in autodiff/gradients/<family>.cpp.
#define SF_OP_FAMILY(family) void add_##family##_gradients(GradientRegistry& registry);
#include "graph/op_list.inc"
#undef SF_OP_FAMILY

namespace {

GradientRegistry& all_gradients() {
  static GradientRegistry registry = [] {
    GradientRegistry all;
#define SF_OP_FAMILY(family) add_##family##_gradients(all);
#include "graph/op_list.inc"
#undef SF_OP_FAMILY
    return all;
  }();
  return registry;
}

}  // namespace

void GradientRegistry::add(const std::string& op, GradientRule rule, GradientTraits traits) {
  SF_CHECK_CODE(rule, ArgumentError, ErrorCode::registration, "op '", op, "' got a gradient rule that is empty",
                hint("add_zero says that its derivative is zero, add_refused that it has none"));
  entries_[op] = {.rule = std::move(rule), .traits = std::move(traits)};
}

void GradientRegistry::add_refused(const std::string& op, const std::string& why, const std::string& what_to_do) {
  add(op, [why, what_to_do](const GradientRequest& request) -> std::vector<Value> {
    throw ArgumentError(error_text_of("gradients through ", request.node.label(), ": ", why, hint(what_to_do)),
                        ErrorCode::no_gradient_rule);
  });
  entries_[op].is_refused = true;
}

const GradientRegistry& gradient_registry() {
  return all_gradients();
}

void take_gradients(GradientRegistry& family) noexcept {
  all_gradients().take(family);
}

}  // namespace sectionflow
