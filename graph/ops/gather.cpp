#include "graph/ops/gather.h"

#include "graph/check_dtype.h"
#include "graph/op_registry.h"

namespace sectionflow {
namespace {

TensorType gathered_type(const ShapeRequest& request, const TensorType& table, const TensorType& indices) {
  SF_CHECK(table.shape.rank() >= 1, ShapeError, request.label, " got the table ", table.text(),
           "; wanted [V, ...]; try reshape");
  SF_CHECK(indices.dtype == Dtype::i32 || indices.dtype == Dtype::i64, ArgumentError, request.label,
           " got the indices ", indices.text(), "; wanted i32 or i64; try cast");
  std::vector<std::int64_t> dims = indices.shape.dims();
  dims.insert(dims.end(), table.shape.dims().begin() + 1, table.shape.dims().end());
  return {table.dtype, Shape(std::move(dims))};
}

}  // namespace

void define_gather_ops(OpRegistry& registry) {
  registry.add({.name = "gather", .inputs = 2, .infer = [](const ShapeRequest& r) {
                  return std::vector{gathered_type(r, r.inputs[0], r.inputs[1])};
                }});
  registry.add({.name = "gather_grad",
                .inputs = 3,
                .infer =
                    [](const ShapeRequest& r) {
                      const TensorType y = gathered_type(r, r.inputs[2], r.inputs[1]);
                      SF_CHECK(is_f32_or_bf16(y.dtype), ArgumentError, r.label, " got the table ", r.inputs[2].text(),
                               "; wanted f32 or bf16");
                      SF_CHECK(may_agree(r.inputs[0], y), ShapeError, r.label, " got dy ", r.inputs[0].text(),
                               "; wanted ", y.text());
                      return std::vector{r.inputs[2]};
                    },
                .uses =
                    [](std::size_t, HostBooleans) {
                      return std::vector{InputUse::data, InputUse::data, InputUse::shape_only};
                    }});
}

Value gather(Value table, Value indices, Where where) {
  return table.graph().add_node("gather", {table, indices}, {}, "gather", where).output();
}
Value gather_grad(Value dy, Value indices, Value table) {
  return dy.graph().add_node("gather_grad", {dy, indices, table}, {}, "gather_grad").output();
}

}  // namespace sectionflow
