#include "graph/ops/one_hot.h"

#include "graph/op_registry.h"
#include "graph/option_fields.h"

namespace sectionflow {

void define_one_hot_ops(OpRegistry& registry) {
  const auto infer = [](const ShapeRequest& r) {
    const TensorType& indices = r.inputs[0];
    const std::int64_t depth = r.get<OneHotOptions>().depth;
    SF_CHECK(indices.dtype == Dtype::i32 || indices.dtype == Dtype::i64, ArgumentError, r.label, " got ",
             indices.text(), "; wanted i32 or i64; try cast");
    SF_CHECK(depth >= 1, ArgumentError, r.label, ": depth is ", depth, "; wanted >= 1");
    std::vector<std::int64_t> dims = indices.shape.dims();
    dims.push_back(depth);
    return std::vector<TensorType>{{Dtype::f32, Shape(std::move(dims))}};
  };
  registry.add({.name = "one_hot",
                .options = described_by<OneHotOptions>([](auto& fields, auto& options) {
                  fields("depth", options.depth);
                  fields("on_value", options.on_value);
                  fields("off_value", options.off_value);
                }),
                .infer = infer});
}

Value one_hot(Value indices, OneHotOptions options, Where where) {
  return indices.graph().add_node("one_hot", {indices}, options, "one_hot", where).output();
}

}  // namespace sectionflow
