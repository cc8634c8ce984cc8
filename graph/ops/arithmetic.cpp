#include "graph/ops/arithmetic.h"

#include <algorithm>

#include "graph/op_registry.h"
#include "graph/ops/basic.h"

namespace sectionflow {
namespace {

std::vector<TensorType> infer_binary(const ShapeRequest& request) {
  const TensorType& a = request.inputs[0];
  const TensorType& b = request.inputs[1];
  SF_CHECK(a.dtype == b.dtype, ArgumentError, request.label, " got ", a.text(), " and ", b.text(),
           "; wanted equal dtypes; try cast(x, Dtype::", dtype_name(a.dtype), ")");
  SF_CHECK(a.dtype == Dtype::f32 || a.dtype == Dtype::i64, ArgumentError, request.label, " got ", a.text(),
           "; wanted f32 or i64; try cast");
  return {{a.dtype, broadcast_shapes(a.shape, b.shape, request.label)}};
}

std::vector<TensorType> infer_div(const ShapeRequest& request) {
  SF_CHECK(request.inputs[0].dtype == Dtype::f32, ArgumentError, request.label, " got ", request.inputs[0].text(),
           "; wanted f32; try cast");
  return infer_binary(request);
}

std::vector<TensorType> infer_add_n(const ShapeRequest& request) {
  const TensorType& first = request.inputs[0];
  SF_CHECK(first.dtype == Dtype::f32, ArgumentError, request.label, " got ", first.text(), "; wanted f32");
  for (const TensorType& type : request.inputs) {
    SF_CHECK(may_agree(type, first), ShapeError, request.label, " got ", first.text(), " and ", type.text(),
             "; wanted equal types");
  }
  return {first};
}

std::vector<TensorType> infer_reduce_to_like(const ShapeRequest& request) {
  const TensorType& x = request.inputs[0];
  const TensorType& like = request.inputs[1];
  SF_CHECK(x.dtype == Dtype::f32, ArgumentError, request.label, " got ", x.text(), "; wanted f32");
  SF_CHECK(broadcast_shapes(x.shape, like.shape, request.label) == x.shape, ShapeError, request.label, ": ", like.shape,
           " does not broadcast to ", x.shape);
  return {{x.dtype, like.shape}};
}

Value binary(std::string_view op, Value a, Value b, Where where) {
  return a.graph().add_node(op, {a, b}, {}, op, where).output();
}

}  // namespace

void define_arithmetic_ops(OpRegistry& registry) {
  for (const char* name : {"add", "sub", "mul"}) registry.add({.name = name, .infer = infer_binary});
  registry.add({.name = "div", .infer = infer_div});
  registry.add({.name = "add_n", .infer = infer_add_n});
  registry.add({.name = "reduce_to_like",
                .infer = infer_reduce_to_like,
                .uses =
                    [](std::size_t, HostBooleans) {
                      return std::vector{InputUse::data, InputUse::shape_only};
                    },
                .is_identity = [](const IdentityRequest& r) { return r.inputs[0].shape == r.outputs[0].shape; }});
}

Value add(Value a, Value b, Where where) {
  return binary("add", a, b, where);
}
Value sub(Value a, Value b, Where where) {
  return binary("sub", a, b, where);
}
Value mul(Value a, Value b, Where where) {
  return binary("mul", a, b, where);
}
Value div(Value a, Value b, Where where) {
  return binary("div", a, b, where);
}
Value operator+(Term a, float b) {
  return add(a.value, constant(a.value.graph(), b, "constant", a.where), a.where);
}
Value operator+(float a, Term b) {
  return add(constant(b.value.graph(), a, "constant", b.where), b.value, b.where);
}
Value operator-(Term a, float b) {
  return sub(a.value, constant(a.value.graph(), b, "constant", a.where), a.where);
}
Value operator-(float a, Term b) {
  return sub(constant(b.value.graph(), a, "constant", b.where), b.value, b.where);
}
Value operator*(Term a, float b) {
  return mul(a.value, constant(a.value.graph(), b, "constant", a.where), a.where);
}
Value operator*(float a, Term b) {
  return mul(constant(b.value.graph(), a, "constant", b.where), b.value, b.where);
}
Value operator/(Term a, float b) {
  return div(a.value, constant(a.value.graph(), b, "constant", a.where), a.where);
}
Value operator/(float a, Term b) {
  return div(constant(b.value.graph(), a, "constant", b.where), b.value, b.where);
}

Value add_n(const std::vector<Value>& values, Where where) {
  SF_CHECK(!values.empty(), ArgumentError, "add_n got no values; wanted one at least");
  return values[0].graph().add_node("add_n", values, {}, "add_n", where).output();
}

Value reduce_to_like(Value x, Value like) {
  return x.graph().add_node("reduce_to_like", {x, like}, {}, "reduce_to_like").output();
}

}  // namespace sectionflow
