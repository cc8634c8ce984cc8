#include "graph/ops/indexing.h"

#include <limits>

#include "graph/nodes/indexing.h"
#include "graph/op_registry.h"
#include "graph/option_fields.h"
#include "graph/shape_rules.h"

namespace sectionflow {
namespace {

void check_indices(const TensorType& indices, const ShapeRequest& request, const char* what) {
  SF_CHECK(indices.dtype == Dtype::i32 || indices.dtype == Dtype::i64, ArgumentError, request.label, " got ", what,
           indices.text(), "; wanted i32 or i64; try cast");
}

TensorType gathered_type(const ShapeRequest& request, const TensorType& table, const TensorType& indices) {
  SF_CHECK(table.shape.rank() >= 1, ShapeError, request.label, " got the table ", table.text(),
           "; wanted [V, ...]; try reshape");
  check_indices(indices, request, "the indices ");
  std::vector<std::int64_t> dims = indices.shape.dims();
  dims.insert(dims.end(), table.shape.dims().begin() + 1, table.shape.dims().end());
  return {table.dtype, Shape(std::move(dims))};
}

std::vector<TensorType> infer_gather_grad(const ShapeRequest& request) {
  const TensorType &dy = request.inputs[0], &table = request.inputs[2];
  const TensorType y = gathered_type(request, table, request.inputs[1]);
  SF_CHECK(is_f32_or_bf16(y.dtype), ArgumentError, request.label, " got the table ", table.text(),
           "; wanted f32 or bf16");
  SF_CHECK(may_agree(dy, y), ShapeError, request.label, " got dy ", dy.text(), "; wanted ", y.text());
  return {table};
}

std::vector<TensorType> infer_one_hot(const ShapeRequest& request) {
  const TensorType& indices = request.inputs[0];
  const std::int64_t depth = request.get<OneHotOptions>().depth;
  check_indices(indices, request, "");
  SF_CHECK(depth >= 1, ArgumentError, request.label, ": depth is ", depth, "; wanted >= 1");
  std::vector<std::int64_t> dims = indices.shape.dims();
  dims.push_back(depth);
  return {{Dtype::f32, Shape(std::move(dims))}};
}

std::vector<TensorType> infer_argmax(const ShapeRequest& request) {
  const TensorType& x = request.inputs[0];
  check_f32_or_bf16(x, request.label);
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  SF_CHECK(x.shape.rank() >= 1 && x.shape[-1] != 0 && x.shape[-1] <= kMost, ShapeError, request.label, " got ",
           x.text(), "; wanted [..., C] with C >= 1 and below 2^31");
  std::vector<std::int64_t> dims = x.shape.dims();
  dims.pop_back();
  return {{Dtype::i32, Shape(std::move(dims))}};
}

}  // namespace

void define_indexing_ops(OpRegistry& registry) {
  const auto infer_gather = [](const ShapeRequest& r) {
    return std::vector{gathered_type(r, r.inputs[0], r.inputs[1])};
  };
  registry.add({.name = "gather", .inputs = 2, .infer = infer_gather});
  registry.add({.name = "gather_present", .inputs = 2, .infer = infer_gather});
  registry.add({.name = "gather_grad", .inputs = 3, .infer = infer_gather_grad, .uses = shape_of_last_alone});
  registry.add({.name = "one_hot",
                .options = described_by<OneHotOptions>([](auto& fields, auto& options) {
                  fields("depth", options.depth);
                  fields("on_value", options.on_value);
                  fields("off_value", options.off_value);
                }),
                .infer = infer_one_hot});
  registry.add({.name = "argmax", .infer = infer_argmax});
}

Value gather(Value table, Value indices, Where where) {
  return table.graph().add_node("gather", {table, indices}, {}, "gather", where).output();
}
Value gather_present(Value table, Value indices) {
  return table.graph().add_node("gather_present", {table, indices}, {}, "gather_present").output();
}
Value gather_grad(Value dy, Value indices, Value table) {
  return dy.graph().add_node("gather_grad", {dy, indices, table}, {}, "gather_grad").output();
}

Value one_hot(Value indices, OneHotOptions options, Where where) {
  return indices.graph().add_node("one_hot", {indices}, options, "one_hot", where).output();
}

Value argmax(Value x, Where where) {
  return x.graph().add_node("argmax", {x}, {}, "argmax", where).output();
}

}  // namespace sectionflow
