#include "graph/ops/bias_add.h"

#include "graph/op_registry.h"

namespace sectionflow {

void define_bias_add_ops(OpRegistry& registry) {
  registry.add({.name = "bias_add", .infer = [](const ShapeRequest& r) {
                  const TensorType& x = r.inputs[0];
                  const TensorType& b = r.inputs[1];
                  SF_CHECK(x.dtype == Dtype::f32 && b.dtype == Dtype::f32, ArgumentError, r.label, " got ", x.text(),
                           " and ", b.text(), "; wanted f32 twice; try cast");
                  SF_CHECK(x.shape.rank() >= 1 && b.shape.rank() == 1 && x.shape[-1] == b.shape[0], ShapeError, r.label,
                           " got x ", x.shape, " and b ", b.shape, "; wanted [..., C] and [C]");
                  return std::vector{x};
                }});
  registry.add({.name = "bias_add_grad", .infer = [](const ShapeRequest& r) {
                  const TensorType& dy = r.inputs[0];
                  SF_CHECK(dy.dtype == Dtype::f32, ArgumentError, r.label, " got ", dy.text(), "; wanted f32");
                  SF_CHECK(dy.shape.rank() >= 1, ShapeError, r.label, " got a scalar; wanted [..., C]");
                  return std::vector<TensorType>{{Dtype::f32, {r.inputs[0].shape[-1]}}};
                }});
}

Value bias_add(Value x, Value b, Where where) {
  return x.graph().add_node("bias_add", {x, b}, {}, "bias_add", where).output();
}
Value bias_add_grad(Value dy) {
  return dy.graph().add_node("bias_add_grad", {dy}, {}, "bias_add_grad").output();
}

}  // namespace sectionflow
