#include "graph/ops/broadcast_to.h"

#include "graph/op_registry.h"
#include "graph/option_fields.h"

namespace sectionflow {
namespace {

std::vector<TensorType> infer_broadcast_to(const ShapeRequest& request) {
  const TensorType& x = request.inputs[0];
  const Shape& shape = request.get<BroadcastToOptions>().shape;
  SF_CHECK(shape.rank() >= x.shape.rank(), ShapeError, request.label, " got ", x.text(), " and the shape ", shape,
           "; wanted at least as many dimensions");
  std::vector<std::int64_t> dims = shape.dims();
  for (int i = 1; i <= shape.rank(); ++i) {
    const bool is_new = i > x.shape.rank();
    const std::int64_t dim = is_new ? 1 : x.shape[-i];
    if (shape[-i] == kDynamic) {
      SF_CHECK(!is_new, ShapeError, request.label, " got ", x.text(), " and the shape ", shape, ": dimension ", -i,
               " is -1, but x has none there");
      dims[shape.rank() - i] = dim;
      continue;
    }
    SF_CHECK(dim == 1 || dim == shape[-i], ShapeError, request.label, " got ", x.text(), " and the shape ", shape,
             ": dimension ", -i, " does not broadcast; wanted 1 or ", shape[-i],
             "; try -1 to keep a dimension that the feed decides");
  }
  return {{x.dtype, Shape(std::move(dims))}};
}

std::vector<TensorType> infer_broadcast_like(const ShapeRequest& request) {
  const TensorType& x = request.inputs[0];
  const Shape& like = request.inputs[1].shape;
  SF_CHECK(broadcast_shapes(x.shape, like, request.label) == like, ShapeError, request.label, " got ", x.text(),
           " and the shape ", like, "; wanted one that it broadcasts to");
  return {{x.dtype, like}};
}

}  // namespace

void define_broadcast_to_ops(OpRegistry& registry) {
  registry.add(
      {.name = "broadcast_to",
       .options = described_by<BroadcastToOptions>([](auto& fields, auto& options) { fields("shape", options.shape); }),
       .infer = infer_broadcast_to,
       .is_identity = [](const IdentityRequest& r) { return r.inputs[0].shape == r.outputs[0].shape; }});
  registry.add({.name = "broadcast_like",
                .inputs = 2,
                .infer = infer_broadcast_like,
                .uses =
                    [](std::size_t, HostBooleans) {
                      return std::vector{InputUse::data, InputUse::shape_only};
                    },
                .is_identity = [](const IdentityRequest& r) { return r.inputs[0].shape == r.outputs[0].shape; }});
}

Value broadcast_to(Value x, Shape shape, Where where) {
  return x.graph().add_node("broadcast_to", {x}, BroadcastToOptions{std::move(shape)}, "broadcast_to", where).output();
}
Value broadcast_like(Value x, Value like) {
  return x.graph().add_node("broadcast_like", {x, like}, {}, "broadcast_like").output();
}

}  // namespace sectionflow
