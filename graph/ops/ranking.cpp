#include "graph/ops/ranking.h"

#include <limits>

#include "graph/nodes/ranking.h"
#include "graph/op_registry.h"
#include "graph/option_fields.h"
#include "graph/shape_rules.h"

namespace sectionflow {
namespace {

std::vector<TensorType> infer_top_k(const ShapeRequest& request) {
  const TensorType& x = request.inputs[0];
  const std::int64_t k = request.get<TopKOptions>().k;
  check_f32_or_bf16(x, request.label);
  SF_CHECK(k >= 1, ArgumentError, request.label, ": k is ", k, "; wanted >= 1");
  SF_CHECK(x.shape.rank() >= 1, ShapeError, request.label, " got ", x.text(), "; wanted [..., C]");
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  const std::int64_t columns = x.shape[-1];
  SF_CHECK(columns == kDynamic ? k <= kMost : k <= columns && columns <= kMost, ShapeError, request.label, " got ",
           x.text(), "; wanted rows of ", k, " elements or more, and fewer than 2^31");
  std::vector<std::int64_t> dims = x.shape.dims();
  dims.back() = k;
  const Shape chosen(std::move(dims));
  return {{x.dtype, chosen}, {Dtype::i32, chosen}};
}

/// What take_along gives. Throws: ShapeError, ArgumentError.
TensorType taken_type(const ShapeRequest& request, const TensorType& x, const TensorType& indices) {
  SF_CHECK(indices.dtype == Dtype::i32 || indices.dtype == Dtype::i64, ArgumentError, request.label,
           " got the indices ", indices.text(), "; wanted i32 or i64; try cast");
  const int rank = x.shape.rank();
  bool agree = rank >= 1 && indices.shape.rank() == rank;
  std::vector<std::int64_t> dims = indices.shape.dims();
  for (int i = 0; agree && i + 1 < rank; ++i) {
    const std::int64_t of_x = x.shape[i], of_indices = indices.shape[i];
    agree = of_x == of_indices || of_x == kDynamic || of_indices == kDynamic;
    if (of_indices == kDynamic) dims[static_cast<std::size_t>(i)] = of_x;
  }
  SF_CHECK(agree, ShapeError, request.label, " got ", x.text(), " and the indices ", indices.text(),
           "; wanted [..., C] and [..., K] with the same rows");
  return {x.dtype, Shape(std::move(dims))};
}

std::vector<TensorType> infer_take_along_grad(const ShapeRequest& request) {
  const TensorType &dy = request.inputs[0], &x = request.inputs[2];
  const TensorType y = taken_type(request, x, request.inputs[1]);
  check_f32_or_bf16(x, request.label);
  SF_CHECK(may_agree(dy, y), ShapeError, request.label, " got dy ", dy.text(), "; wanted ", y.text());
  return {x};
}

}  // namespace

void define_ranking_ops(OpRegistry& registry) {
  registry.add({.name = "top_k",
                .options = described_by<TopKOptions>([](auto& fields, auto& options) { fields("k", options.k); }),
                .infer = infer_top_k});
  registry.add({.name = "take_along",
                .inputs = 2,
                .options = described_by<TakeAlongOptions>(
                    [](auto& fields, auto& options) { fields("missing_is_zero", options.missing_is_zero); }),
                .infer = [](const ShapeRequest& r) { return std::vector{taken_type(r, r.inputs[0], r.inputs[1])}; }});
  registry.add({.name = "take_along_grad", .inputs = 3, .infer = infer_take_along_grad, .uses = shape_of_last_alone});
}

TopK top_k(Value x, std::int64_t k, Where where) {
  Node& node = x.graph().add_node("top_k", {x}, TopKOptions{k}, "top_k", where);
  return {node.output(0), node.output(1)};
}

Value take_along(Value x, Value indices, Where where) {
  return take_along(x, indices, TakeAlongOptions{}, where);
}
Value take_along(Value x, Value indices, TakeAlongOptions options, Where where) {
  return x.graph().add_node("take_along", {x, indices}, options, "take_along", where).output();
}
Value take_along_grad(Value dy, Value indices, Value x) {
  return dy.graph().add_node("take_along_grad", {dy, indices, x}, {}, "take_along_grad").output();
}

}  // namespace sectionflow
