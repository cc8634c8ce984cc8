#include "graph/ops/slice.h"

#include "graph/op_registry.h"
#include "graph/option_fields.h"
#include "graph/shape_gradient.h"

namespace sectionflow {
namespace {

TensorType sliced_type(const ShapeRequest& request, const TensorType& x) {
  const auto& [begin, size] = request.get<SliceOptions>();
  const auto rank = static_cast<std::size_t>(x.shape.rank());
  SF_CHECK(begin.size() == rank && size.size() == rank, ShapeError, request.label, " got ", begin.size(),
           " begins and ", size.size(), " sizes for ", x.text(), "; wanted one of each an axis");
  std::vector<std::int64_t> dims = x.shape.dims();
  for (std::size_t axis = 0; axis < rank; ++axis) {
    const std::int64_t dim = dims[axis], first = begin[axis], count = size[axis];
    SF_CHECK(first >= 0 && count >= -1, ShapeError, request.label, ": axis ", axis, " has begin ", first, " and size ",
             count, "; wanted a begin >= 0 and a size >= 0, or -1 for all to the end");
    SF_CHECK(dim == kDynamic || first <= dim, ShapeError, request.label, ": axis ", axis, " of ", x.shape,
             " has nothing from ", first, " on");
    SF_CHECK(dim == kDynamic || count <= dim - first, ShapeError, request.label, ": axis ", axis, " of ", x.shape,
             " has no ", count, " elements from ", first, " on; try -1 for all to the end");
    if (count != -1) {
      dims[axis] = count;
    } else if (dim != kDynamic) {
      dims[axis] = dim - first;
    }
  }
  return {x.dtype, Shape(std::move(dims))};
}

}  // namespace

void define_slice_ops(OpRegistry& registry) {
  const OptionsDescription options = described_by<SliceOptions>([](auto& fields, auto& described) {
    fields("begin", described.begin);
    fields("size", described.size);
  });
  registry.add({.name = "slice", .options = options, .infer = [](const ShapeRequest& r) {
                  return std::vector{sliced_type(r, r.inputs[0])};
                }});
  registry.add(gradient_by_shape("slice_grad", options, sliced_type));
}

Value slice(Value x, SliceOptions options, Where where) {
  return x.graph().add_node("slice", {x}, std::move(options), "slice", where).output();
}
Value slice_grad(Value dy, Value x, const SliceOptions& options) {
  return x.graph().add_node("slice_grad", {dy, x}, options, "slice_grad").output();
}

}  // namespace sectionflow
