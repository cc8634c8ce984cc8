#include "graph/ops/pad.h"

#include "base/checked_arithmetic.h"
#include "graph/op_registry.h"
#include "graph/option_fields.h"
#include "graph/shape_gradient.h"

namespace sectionflow {
namespace {

TensorType padded_type(const ShapeRequest& request, const TensorType& x) {
  const auto& options = request.get<PadOptions>();
  const auto rank = static_cast<std::size_t>(x.shape.rank());
  SF_CHECK(options.before.size() == rank && options.after.size() == rank, ShapeError, request.label, " got ",
           options.before.size(), " sizes before and ", options.after.size(), " after for ", x.text(),
           "; wanted one of each an axis");
  std::vector<std::int64_t> dims = x.shape.dims();
  for (std::size_t axis = 0; axis < rank; ++axis) {
    const std::int64_t before = options.before[axis], after = options.after[axis];
    SF_CHECK(before >= 0 && after >= 0, ShapeError, request.label, ": axis ", axis, " is padded by ", before, " and ",
             after, "; wanted >= 0; try slice to cut off elements");
    if (dims[axis] != kDynamic) dims[axis] = checked_add(dims[axis], checked_add(before, after));
  }
  return {x.dtype, Shape(std::move(dims))};
}

}  // namespace

void define_pad_ops(OpRegistry& registry) {
  const OptionsDescription options = described_by<PadOptions>([](auto& fields, auto& described) {
    fields("before", described.before);
    fields("after", described.after);
    fields("value", described.value);
  });
  registry.add({.name = "pad", .options = options, .infer = [](const ShapeRequest& r) {
                  return std::vector{padded_type(r, r.inputs[0])};
                }});
  registry.add(gradient_by_shape("pad_grad", options, padded_type));
}

Value pad(Value x, PadOptions options, Where where) {
  return x.graph().add_node("pad", {x}, std::move(options), "pad", where).output();
}
Value pad_grad(Value dy, Value x, const PadOptions& options) {
  return x.graph().add_node("pad_grad", {dy, x}, options, "pad_grad").output();
}

}  // namespace sectionflow
