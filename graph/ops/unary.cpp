#include "graph/ops/unary.h"

#include "graph/check_dtype.h"
#include "graph/elementwise.h"
#include "graph/op_registry.h"

namespace sectionflow {
namespace {

std::vector<TensorType> infer_neg(const ShapeRequest& request) {
  const TensorType& x = request.inputs[0];
  SF_CHECK(is_f32_or_bf16(x.dtype) || x.dtype == Dtype::i64, ArgumentError, request.label, " got ", x.text(),
           "; wanted f32, bf16 or i64; try cast");
  return {x};
}

Value unary(std::string_view op, Value x, Where where) {
  return x.graph().add_node(op, {x}, {}, op, where).output();
}
Value gradient(std::string_view op, Value dy, Value other) {
  return other.graph().add_node(op, {dy, other}, {}, op).output();
}

}  // namespace

void define_unary_ops(OpRegistry& registry) {
  registry.add({.name = "neg", .infer = infer_neg});
  for (const char* name : {"square", "sqrt", "rsqrt", "exp", "log"}) {
    registry.add({.name = name, .infer = infer_like_float});
  }
  for (const char* name : {"square_grad", "sqrt_grad", "rsqrt_grad"}) {
    registry.add({.name = name, .inputs = 2, .infer = infer_gradient_of_one});
  }
}

Value neg(Value x, Where where) {
  return unary("neg", x, where);
}
Value square(Value x, Where where) {
  return unary("square", x, where);
}
Value sqrt(Value x, Where where) {
  return unary("sqrt", x, where);
}
Value rsqrt(Value x, Where where) {
  return unary("rsqrt", x, where);
}
Value exp(Value x, Where where) {
  return unary("exp", x, where);
}
Value log(Value x, Where where) {
  return unary("log", x, where);
}

Value square_grad(Value dy, Value x) {
  return gradient("square_grad", dy, x);
}
Value sqrt_grad(Value dy, Value y) {
  return gradient("sqrt_grad", dy, y);
}
Value rsqrt_grad(Value dy, Value y) {
  return gradient("rsqrt_grad", dy, y);
}

}  // namespace sectionflow
