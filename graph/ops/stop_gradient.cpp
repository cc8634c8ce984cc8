#include "graph/ops/stop_gradient.h"

#include "graph/op_registry.h"

namespace sectionflow {

void define_stop_gradient_ops(OpRegistry& registry) {
  registry.add({.name = "stop_gradient",
                .infer = [](const ShapeRequest& r) { return std::vector{r.inputs[0]}; },
                .is_identity = [](const IdentityRequest&) { return true; }});
}

Value stop_gradient(Value x, Where where) {
  return x.graph().add_node("stop_gradient", {x}, {}, "stop_gradient", where).output();
}

}  // namespace sectionflow
