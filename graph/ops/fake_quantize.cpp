#include "graph/ops/fake_quantize.h"

#include "graph/nodes/fake_quantize.h"
#include "graph/op_registry.h"
#include "graph/shape_rules.h"

namespace sectionflow {
namespace {

/// x at `first`, the ends of its range behind it.
void check_operands(const ShapeRequest& r, std::size_t first) {
  const TensorType &x = r.inputs[first], &minimum = r.inputs[first + 1], &maximum = r.inputs[first + 2];
  check_f32_or_bf16(x, r.label);
  SF_CHECK(minimum.dtype == Dtype::f32 && maximum.dtype == Dtype::f32, ArgumentError, r.label, " got a range ",
           minimum.text(), " to ", maximum.text(), "; wanted f32; try cast");
  const auto fits = [&](const Shape& end) {
    return end.rank() == 0 || (end.rank() == 1 && x.shape.rank() > 0 && end[0] == x.shape[-1]);
  };
  SF_CHECK(minimum.shape == maximum.shape && fits(minimum.shape), ShapeError, r.label, " got x ", x.shape,
           " and a range ", minimum.shape, " to ", maximum.shape, "; wanted x [..., C] and both ends [] or both [C]");
}

std::vector<TensorType> infer_fake_quantize(const ShapeRequest& r) {
  check_operands(r, 0);
  return {r.inputs[0]};
}

const TensorType& gradient_like_x(const ShapeRequest& r) {
  check_operands(r, 1);
  SF_CHECK(may_agree(r.inputs[0], r.inputs[1]), ShapeError, r.label, " got dy ", r.inputs[0].text(), " and x ",
           r.inputs[1].text(), "; wanted equal ones");
  return r.inputs[1];
}

}  // namespace

void define_fake_quantize_ops(OpRegistry& registry) {
  registry.add({.name = "fake_quantize", .inputs = 3, .infer = infer_fake_quantize, .parts = parts_of_elements});
  registry.add({.name = "fake_quantize_grad",
                .inputs = 4,
                .infer = [](const ShapeRequest& r) { return std::vector{gradient_like_x(r)}; },
                .parts = parts_of_elements});
  registry.add({.name = "fake_quantize_range_grad",
                .inputs = 4,
                .infer =
                    [](const ShapeRequest& r) {
                      return std::vector{TensorType{Dtype::f32, gradient_like_x(r).shape}};
                    },
                .parts = parts_of_elements});
}

Value fake_quantize(Value x, Value minimum, Value maximum, Where where) {
  return x.graph().add_node("fake_quantize", {x, minimum, maximum}, {}, "fake_quantize", where).output();
}
Value fake_quantize_grad(Value dy, Value x, Value minimum, Value maximum) {
  return x.graph().add_node("fake_quantize_grad", {dy, x, minimum, maximum}, {}, "fake_quantize_grad").output();
}
Value fake_quantize_range_grad(Value dy, Value x, Value minimum, Value maximum) {
  return x.graph()
      .add_node("fake_quantize_range_grad", {dy, x, minimum, maximum}, {}, "fake_quantize_range_grad")
      .output();
}

}  // namespace sectionflow
