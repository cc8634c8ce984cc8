#include "graph/ops/layout.h"

#include <algorithm>

#include "graph/nodes/layout.h"
#include "graph/op_registry.h"
#include "graph/option_fields.h"
#include "graph/shape_rules.h"

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

std::vector<TensorType> infer_transpose(const ShapeRequest& request) {
  const TensorType& x = request.inputs[0];
  std::vector<std::int64_t> dims;
  for (int axis : normalized_permutation(request.get<TransposeOptions>().permutation, x.shape.rank(), request.label)) {
    dims.push_back(x.shape[axis]);
  }
  return {{x.dtype, Shape(std::move(dims))}};
}

/// Where the first axis stays the first.
std::optional<RowParts> transpose_parts(const ConcreteRequest& request) {
  const int rank = request.inputs[0].shape.rank();
  if (rank == 0) return std::nullopt;
  const int first = request.get<TransposeOptions>().permutation[0];
  if (normalized_axis(first, rank, "transpose") != 0) return std::nullopt;
  return RowParts{.inputs = {PartUse::rows}, .outputs = {PartUse::rows}};
}

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

/// x, of which a size that is unknown is the other's, if that is known.
std::vector<TensorType> infer_same_size(const ShapeRequest& request) {
  const TensorType& x = request.inputs[0];
  const TensorType& like = request.inputs[1];
  const auto& options = request.get<SameSizeOptions>();
  const int axis = normalized_axis(options.axis, x.shape.rank(), request.label);
  const std::int64_t size = x.shape[axis];
  const std::int64_t wanted = like.shape[normalized_axis(options.like_axis, like.shape.rank(), request.label)];
  // No user calls it: what is held to what is all that an error has to say.
  SF_CHECK(size == wanted || size == kDynamic || wanted == kDynamic, ShapeError, options.what, " is ", size, " in ",
           x.text(), ", ", wanted, " in ", like.text(), "; wanted one size");
  std::vector<std::int64_t> dims = x.shape.dims();
  if (size == kDynamic) dims[static_cast<std::size_t>(axis)] = wanted;
  return {{x.dtype, Shape(std::move(dims))}};
}

}  // namespace

void define_layout_ops(OpRegistry& registry) {
  const auto is_identity = [](const ConcreteRequest&) { return true; };
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
                .uses = shape_of_last_alone,
                .is_identity = is_identity});
  registry.add({.name = "same_size",
                .inputs = 2,
                .options = described_by<SameSizeOptions>([](auto& fields, auto& options) {
                  fields("axis", options.axis);
                  fields("like_axis", options.like_axis);
                  fields("what", options.what);
                }),
                .infer = infer_same_size,
                .uses = shape_of_last_alone,
                .is_identity = is_identity});
  registry.add({.name = "transpose",
                .options = described_by<TransposeOptions>(
                    [](auto& fields, auto& options) { fields("permutation", options.permutation); }),
                .infer = infer_transpose,
                .parts = transpose_parts});
  registry.add(
      {.name = "broadcast_to",
       .options = described_by<BroadcastToOptions>([](auto& fields, auto& options) { fields("shape", options.shape); }),
       .infer = infer_broadcast_to,
       .is_identity = [](const ConcreteRequest& r) { return r.inputs[0].shape == r.outputs[0].shape; }});
  registry.add({.name = "broadcast_like",
                .inputs = 2,
                .infer = infer_broadcast_like,
                .uses = shape_of_last_alone,
                .is_identity = [](const ConcreteRequest& r) { return r.inputs[0].shape == r.outputs[0].shape; }});
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
Value same_size(Value x, Value like, SameSizeOptions options) {
  return x.graph().add_node("same_size", {x, like}, std::move(options), "same_size").output();
}

std::vector<int> normalized_permutation(const std::vector<int>& permutation, int rank, const std::string& label) {
  SF_CHECK(static_cast<int>(permutation.size()) == rank, ShapeError, label, " got a permutation of ",
           permutation.size(), " axes for rank ", rank, "; wanted each axis once");
  std::vector<bool> named(permutation.size(), false);
  std::vector<int> positive;
  for (int axis : permutation) {
    positive.push_back(normalized_axis(axis, rank, label));
    SF_CHECK(!named[positive.back()], ShapeError, label, ": axis ", axis, " is named twice; wanted each axis once");
    named[positive.back()] = true;
  }
  return positive;
}

Value transpose(Value x, std::vector<int> permutation, Where where) {
  return x.graph().add_node("transpose", {x}, TransposeOptions{std::move(permutation)}, "transpose", where).output();
}

Value broadcast_to(Value x, Shape shape, Where where) {
  return x.graph().add_node("broadcast_to", {x}, BroadcastToOptions{std::move(shape)}, "broadcast_to", where).output();
}
Value broadcast_like(Value x, Value like) {
  return x.graph().add_node("broadcast_like", {x, like}, {}, "broadcast_like").output();
}

}  // namespace sectionflow
