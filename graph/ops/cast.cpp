#include "graph/ops/cast.h"

#include "graph/op_registry.h"
#include "graph/option_fields.h"

namespace sectionflow {

void define_cast_ops(OpRegistry& registry) {
  registry.add(
      {.name = "cast",
       .options = described_by<CastOptions>([](auto& fields, auto& options) { fields("dtype", options.dtype); }),
       .infer =
           [](const ShapeRequest& r) {
             return std::vector<TensorType>{{r.get<CastOptions>().dtype, r.inputs[0].shape}};
           },
       .is_identity = [](const IdentityRequest& r) { return r.inputs[0].dtype == r.outputs[0].dtype; }});
}

Value cast(Value x, Dtype dtype, Where where) {
  return x.graph().add_node("cast", {x}, CastOptions{dtype}, "cast", where).output();
}

}  // namespace sectionflow
