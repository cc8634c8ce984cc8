#include "graph/ops/matmul.h"

#include "graph/op_registry.h"

namespace sectionflow {

void define_matmul_ops(OpRegistry& registry) {
  registry.add({.name = "matmul", .infer = [](const ShapeRequest& r) {
                  const TensorType& a = r.inputs[0];
                  const TensorType& b = r.inputs[1];
                  const auto& options = r.get<MatmulOptions>();
                  SF_CHECK(a.dtype == Dtype::f32 && b.dtype == Dtype::f32, ArgumentError, r.label, " got ", a.text(),
                           " and ", b.text(), "; wanted f32 twice; try cast");
                  SF_CHECK(a.shape.rank() == 2 && b.shape.rank() == 2, ShapeError, r.label, " got ", a.shape, " x ",
                           b.shape, "; wanted two matrices; try reshape");
                  const std::int64_t inner_a = a.shape[options.transpose_a ? 0 : 1];
                  const std::int64_t inner_b = b.shape[options.transpose_b ? 1 : 0];
                  SF_CHECK(inner_a == inner_b || inner_a == kDynamic || inner_b == kDynamic, ShapeError, r.label,
                           " got ", a.shape, options.transpose_a ? "^T" : "", " x ", b.shape,
                           options.transpose_b ? "^T" : "", "; inner dimensions ", inner_a, " and ", inner_b,
                           " differ");
                  return std::vector<TensorType>{
                      {Dtype::f32, {a.shape[options.transpose_a ? 1 : 0], b.shape[options.transpose_b ? 0 : 1]}}};
                }});
}

Value matmul(Value a, Value b, MatmulOptions options, Where where) {
  return a.graph().add_node("matmul", {a, b}, options, "matmul", where).output();
}

}  // namespace sectionflow
