#include "graph/ops/select.h"

#include "graph/op_registry.h"

namespace sectionflow {
namespace {

std::vector<TensorType> infer_select(const ShapeRequest& request) {
  const TensorType& condition = request.inputs[0];
  const TensorType& a = request.inputs[1];
  const TensorType& b = request.inputs[2];
  SF_CHECK(condition.dtype == Dtype::boolean, ArgumentError, request.label, " got the condition ", condition.text(),
           "; wanted a boolean; try less, equal or another comparison");
  SF_CHECK(a.dtype == b.dtype, ArgumentError, request.label, " got ", a.text(), " and ", b.text(),
           " to choose from; wanted equal dtypes; try cast(x, Dtype::", dtype_name(a.dtype), ")");
  const Shape both = broadcast_shapes(a.shape, b.shape, request.label);
  return {{a.dtype, broadcast_shapes(condition.shape, both, request.label)}};
}

}  // namespace

void define_select_ops(OpRegistry& registry) {
  registry.add({.name = "select", .inputs = 3, .infer = infer_select});
}

Value select(Value condition, Value a, Value b, Where where) {
  return a.graph().add_node("select", {condition, a, b}, {}, "select", where).output();
}

}  // namespace sectionflow
