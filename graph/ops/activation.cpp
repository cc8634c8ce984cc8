#include "graph/ops/activation.h"

#include "graph/op_registry.h"

namespace sectionflow {

void define_activation_ops(OpRegistry& registry) {
  registry.add({.name = "relu", .infer = [](const ShapeRequest& r) {
                  SF_CHECK(r.inputs[0].dtype == Dtype::f32, ArgumentError, r.label, " got ", r.inputs[0].text(),
                           "; wanted f32; try cast");
                  return std::vector{r.inputs[0]};
                }});
  registry.add({.name = "relu_grad", .infer = [](const ShapeRequest& r) {
                  SF_CHECK(may_agree(r.inputs[0], r.inputs[1]), ShapeError, r.label, " got ", r.inputs[0].text(),
                           " and ", r.inputs[1].text(), "; wanted equal types");
                  return std::vector{r.inputs[1]};
                }});
}

Value relu(Value x, Where where) {
  return x.graph().add_node("relu", {x}, {}, "relu", where).output();
}
Value relu_grad(Value dy, Value y) {
  return y.graph().add_node("relu_grad", {dy, y}, {}, "relu_grad").output();
}

}  // namespace sectionflow
