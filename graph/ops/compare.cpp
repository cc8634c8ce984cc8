#include "graph/ops/compare.h"

#include "graph/op_registry.h"

namespace sectionflow {

void define_compare_ops(OpRegistry& registry) {
  registry.add({.name = "equal", .infer = [](const ShapeRequest& r) {
                  const TensorType& a = r.inputs[0];
                  const TensorType& b = r.inputs[1];
                  SF_CHECK(a.dtype == b.dtype, ArgumentError, r.label, " got ", a.text(), " and ", b.text(),
                           "; wanted equal dtypes; try cast(x, Dtype::", dtype_name(a.dtype), ")");
                  SF_CHECK(a.shape == b.shape, ShapeError, r.label, " got ", a.text(), " and ", b.text(),
                           "; wanted equal shapes");
                  return std::vector<TensorType>{{Dtype::boolean, a.shape}};
                }});
}

Value equal(Value a, Value b, Where where) {
  return a.graph().add_node("equal", {a, b}, {}, "equal", where).output();
}

}  // namespace sectionflow
