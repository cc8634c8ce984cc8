#include "graph/ops/reshape.h"

#include <algorithm>

#include "graph/op_registry.h"
#include "graph/option_fields.h"

namespace sectionflow {
namespace {

std::vector<TensorType> infer_reshape(const ShapeRequest& request) {
  const TensorType& x = request.inputs[0];
  std::vector<std::int64_t> dims = request.get<ReshapeOptions>().shape.dims();
  const auto unknown = std::find(dims.begin(), dims.end(), kDynamic);
  SF_CHECK(std::count(dims.begin(), dims.end(), kDynamic) <= 1, ShapeError, request.label, ": shape ", Shape(dims),
           " has more than one -1");
  if (!x.shape.is_static()) {
    SF_CHECK(unknown != dims.end(), ShapeError, request.label, ": ", x.shape,
             " has a dimension that the feed decides; ", "wanted a -1 in the new shape ", Shape(dims));
    return {{x.dtype, Shape(std::move(dims))}};
  }
  const std::int64_t wanted = x.shape.num_elements();
  if (unknown != dims.end()) {
    *unknown = 1;
    const std::int64_t known = Shape(dims).num_elements();
    SF_CHECK(known > 0 && wanted % known == 0, ShapeError, request.label, ": ", x.shape, " has ", wanted,
             " elements, not a multiple of the ", known, " of the known dimensions");
    *unknown = wanted / known;
  }
  const Shape result(std::move(dims));
  SF_CHECK(result.num_elements() == wanted, ShapeError, request.label, ": ", x.shape, " has ", wanted, " elements, ",
           result, " has ", result.num_elements());
  return {{x.dtype, result}};
}

std::vector<TensorType> infer_flatten(const ShapeRequest& request) {
  const TensorType& x = request.inputs[0];
  SF_CHECK(x.shape.rank() >= 1, ShapeError, request.label, " got a scalar; wanted [N, ...]; try reshape");
  const Shape rest(std::vector(x.shape.dims().begin() + 1, x.shape.dims().end()));
  return {{x.dtype, {x.shape[0], rest.is_static() ? rest.num_elements() : kDynamic}}};
}

}  // namespace

void define_reshape_ops(OpRegistry& registry) {
  const auto is_identity = [](const IdentityRequest&) { return true; };
  registry.add(
      {.name = "reshape",
       .options = described_by<ReshapeOptions>([](auto& fields, auto& options) { fields("shape", options.shape); }),
       .infer = infer_reshape,
       .is_identity = is_identity});
  registry.add({.name = "flatten", .infer = infer_flatten, .is_identity = is_identity});
  registry.add({.name = "reshape_like",
                .inputs = 2,
                .infer =
                    [](const ShapeRequest& r) {
                      const Shape& x = r.inputs[0].shape;
                      const Shape& like = r.inputs[1].shape;
                      const bool known = x.is_static() && like.is_static();
                      SF_CHECK(!known || x.num_elements() == like.num_elements(), ShapeError, r.label, " got ", x,
                               " and like ", like, "; wanted as many elements");
                      return std::vector<TensorType>{{r.inputs[0].dtype, like}};
                    },
                .uses =
                    [](std::size_t, HostBooleans) {
                      return std::vector{InputUse::data, InputUse::shape_only};
                    },
                .is_identity = is_identity});
}

Value reshape(Value x, Shape shape, Where where) {
  return x.graph().add_node("reshape", {x}, ReshapeOptions{std::move(shape)}, "reshape", where).output();
}
Value flatten(Value x, Where where) {
  return x.graph().add_node("flatten", {x}, {}, "flatten", where).output();
}
Value reshape_like(Value x, Value like) {
  return x.graph().add_node("reshape_like", {x, like}, {}, "reshape_like").output();
}

}  // namespace sectionflow
