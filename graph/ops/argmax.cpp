#include "graph/ops/argmax.h"

#include "graph/check_dtype.h"
#include "graph/op_registry.h"

namespace sectionflow {

void define_argmax_ops(OpRegistry& registry) {
  registry.add({.name = "argmax", .infer = [](const ShapeRequest& r) {
                  const TensorType& x = r.inputs[0];
                  check_f32_or_bf16(x, r.label);
                  SF_CHECK(x.shape.rank() >= 1 && x.shape[-1] != 0, ShapeError, r.label, " got ", x.text(),
                           "; wanted [..., C] with C >= 1");
                  std::vector<std::int64_t> dims = x.shape.dims();
                  dims.pop_back();
                  return std::vector<TensorType>{{Dtype::i32, Shape(std::move(dims))}};
                }});
}

Value argmax(Value x, Where where) {
  return x.graph().add_node("argmax", {x}, {}, "argmax", where).output();
}

}  // namespace sectionflow
