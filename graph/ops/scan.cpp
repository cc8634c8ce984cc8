#include "graph/ops/scan.h"

#include "graph/nodes/scan.h"
#include "graph/op_registry.h"
#include "graph/option_fields.h"
#include "graph/shape_rules.h"

namespace sectionflow {
namespace {

std::vector<TensorType> infer_cumsum(const ShapeRequest& request) {
  const TensorType& x = request.inputs[0];
  SF_CHECK(is_f32_or_bf16(x.dtype) || x.dtype == Dtype::i32 || x.dtype == Dtype::i64, ArgumentError, request.label,
           " got ", x.text(), "; wanted f32, bf16, i32 or i64", hint("cast it"));
  normalized_axis(request.get<CumsumNodeOptions>().axis, x.shape.rank(), text_of(request.label, " got ", x.text()));
  return {x};
}

}  // namespace

void define_scan_ops(OpRegistry& registry) {
  registry.add({.name = "cumsum",
                .options = described_by<CumsumNodeOptions>([](auto& fields, auto& options) {
                  fields("axis", options.axis);
                  fields("exclusive", options.sums.exclusive);
                  fields("reverse", options.sums.reverse);
                }),
                .infer = infer_cumsum});
}

Value cumsum(Value x, int axis, CumsumOptions options, Where where) {
  return x.graph().add_node("cumsum", {x}, CumsumNodeOptions{axis, options}, "cumsum", where).output();
}

}  // namespace sectionflow
