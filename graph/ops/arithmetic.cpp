#include "graph/ops/arithmetic.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "graph/nodes/arithmetic.h"
#include "graph/op_registry.h"
#include "graph/ops/basic.h"
#include "graph/option_fields.h"
#include "graph/shape_rules.h"

namespace sectionflow {
namespace {

std::vector<TensorType> infer_binary(const ShapeRequest& request) {
  const TensorType& a = request.inputs[0];
  std::vector<TensorType> result = infer_broadcast(request);
  SF_CHECK(is_f32_or_bf16(a.dtype) || a.dtype == Dtype::i32 || a.dtype == Dtype::i64, ArgumentError, request.label,
           " got ", a.text(), "; wanted f32, bf16, i32 or i64; try cast");
  return result;
}

std::vector<TensorType> infer_float_binary(const ShapeRequest& request) {
  infer_like_float(request);
  return infer_broadcast(request);
}

std::vector<TensorType> infer_add_n(const ShapeRequest& request) {
  const TensorType& first = request.inputs[0];
  check_f32_or_bf16(first, request.label);
  for (const TensorType& type : request.inputs) {
    SF_CHECK(may_agree(type, first), ShapeError, request.label, " got ", first.text(), " and ", type.text(),
             "; wanted equal types");
  }
  return {first};
}

std::vector<TensorType> infer_accumulate(const ShapeRequest& request) {
  const TensorType &sum = request.inputs[0], &part = request.inputs[1];
  check_f32_or_bf16(sum, request.label);
  SF_CHECK(may_agree(part, {Dtype::bf16, sum.shape}), ShapeError, request.label, " got ", sum.text(), " and ",
           part.text(), "; wanted a second of bf16 and of the first one's shape");
  const TensorType result{request.get<AccumulateOptions>().dtype, sum.shape};
  check_f32_or_bf16(result, request.label);
  return {result};
}

std::vector<TensorType> infer_reduce_to_like(const ShapeRequest& request) {
  const TensorType& x = request.inputs[0];
  const TensorType& like = request.inputs[1];
  check_f32_or_bf16(x, request.label);
  SF_CHECK(broadcast_shapes(x.shape, like.shape, request.label) == x.shape, ShapeError, request.label, ": ", like.shape,
           " does not broadcast to ", x.shape);
  return {{x.dtype, like.shape}};
}

Value binary(std::string_view op, Value a, Value b, Where where) {
  return a.graph().add_node(op, {a, b}, {}, op, where).output();
}

Value gradient(std::string_view op, Value dy, Value first, Value second) {
  return dy.graph().add_node(op, {dy, first, second}, {}, op).output();
}

using Binary = Value (*)(Value, Value, Where);

/// A number beside a value: in bf16 or whole numbers where these are, otherwise f32. Throws: ArgumentError for one that
/// is not whole, and from 2^24 on, where a float may stand for another whole number than the one that was written.
Value number(float value, Term beside) {
  Graph& graph = beside.value.graph();
  const Dtype dtype = beside.value.dtype();
  const auto of = [&](HostTensor scalar) { return constant(graph, std::move(scalar), "constant", beside.where); };
  if (dtype == Dtype::bf16) return of(HostTensor::scalar(BFloat16(value)));
  if (dtype != Dtype::i32 && dtype != Dtype::i64) return constant(graph, value, "constant", beside.where);
  SF_CHECK(std::trunc(value) == value && std::abs(value) < 0x1p24F, ArgumentError, "the number ", value, " beside '",
           beside.value.name(), "', which is ", beside.value.type().text(), "; wanted a whole number below 2^24",
           hint("cast the value to f32, or give a constant of its dtype"));
  if (dtype == Dtype::i32) return of(HostTensor::scalar(static_cast<std::int32_t>(value)));
  return of(HostTensor::scalar(static_cast<std::int64_t>(value)));
}

/// With a number on one side: its constant goes again where the operation is refused.
Value with_number(Binary op, Term a, float b) {
  Graph& graph = a.value.graph();
  return graph.build_at(a.where, [&] { return op(a.value, number(b, a), a.where); });
}
Value with_number(Binary op, float a, Term b) {
  Graph& graph = b.value.graph();
  return graph.build_at(b.where, [&] { return op(number(a, b), b.value, b.where); });
}

/// x = op(x, y).
Value& assigned(Binary op, Value& x, RightSide y) {
  SF_CHECK(x.valid(), ArgumentError,
           "the left side of a sign that assigns is a default-constructed Value; wanted the result of an operation",
           hint("begin a sum with its first term"));
  return x = y.is_number ? with_number(op, Term(x, y.where), y.number) : op(x, y.value, y.where);
}

std::vector<TensorType> infer_comparison(const ShapeRequest& request) {
  return {{Dtype::boolean, infer_broadcast(request)[0].shape}};
}

std::vector<TensorType> infer_logical(const ShapeRequest& request) {
  for (const TensorType& type : request.inputs) {
    SF_CHECK(type.dtype == Dtype::boolean, ArgumentError, request.label, " got ", type.text(),
             "; wanted booleans; try a comparison, or cast(x, Dtype::boolean)");
  }
  return infer_broadcast(request);
}

std::vector<TensorType> infer_select(const ShapeRequest& request) {
  const TensorType& condition = request.inputs[0];
  const TensorType& a = request.inputs[1];
  const TensorType& b = request.inputs[2];
  SF_CHECK(condition.dtype == Dtype::boolean, ArgumentError, request.label, " got the condition ", condition.text(),
           "; wanted a boolean; try less, equal or another comparison");
  SF_CHECK(a.dtype == b.dtype, ArgumentError, request.label, " got ", a.text(), " and ", b.text(),
           " to choose from; wanted equal dtypes; try cast(x, Dtype::", dtype_name(a.dtype), ")");
  const Shape both = broadcast_shapes(a.shape, b.shape, request.label);
  return {{a.dtype, broadcast_shapes(condition.shape, both, request.label)}};
}

}  // namespace

void define_arithmetic_ops(OpRegistry& registry) {
  for (const char* name : {"add", "sub", "mul", "maximum", "minimum"}) {
    registry.add({.name = name, .inputs = 2, .infer = infer_binary, .parts = parts_of_elements});
  }
  for (const char* name : {"div", "pow"}) {
    registry.add({.name = name, .inputs = 2, .infer = infer_float_binary, .parts = parts_of_elements});
  }
  for (const char* name : {"maximum_grad", "minimum_grad", "pow_grad_base", "pow_grad_exponent"}) {
    registry.add({.name = name, .inputs = 3, .infer = infer_gradient_of_two, .parts = parts_of_elements});
  }
  registry.add({.name = "add_n", .inputs = {1, kAnyNumber}, .infer = infer_add_n, .parts = parts_of_elements});
  registry.add(
      {.name = "accumulate",
       .inputs = 2,
       .options = described_by<AccumulateOptions>([](auto& fields, auto& options) { fields("dtype", options.dtype); }),
       .infer = infer_accumulate,
       .parts = parts_of_elements});
  registry.add({.name = "reduce_to_like",
                .inputs = 2,
                .infer = infer_reduce_to_like,
                .uses = shape_of_last_alone,
                .is_identity = [](const ConcreteRequest& r) { return r.inputs[0].shape == r.outputs[0].shape; }});
  for (const char* name : {"equal", "not_equal", "less", "less_equal", "greater", "greater_equal"}) {
    registry.add({.name = name, .inputs = 2, .infer = infer_comparison, .parts = parts_of_elements});
  }
  for (const char* name : {"logical_and", "logical_or", "logical_xor"}) {
    registry.add({.name = name, .inputs = 2, .infer = infer_logical, .parts = parts_of_elements});
  }
  registry.add({.name = "select", .inputs = 3, .infer = infer_select, .parts = parts_of_elements});
}

// Functions of two values have the names of their ops.
#define SF_BINARY(name)                       \
  Value name(Value a, Value b, Where where) { \
    return binary(#name, a, b, where);        \
  }
SF_BINARY(add)
SF_BINARY(sub)
SF_BINARY(mul)
SF_BINARY(div)
SF_BINARY(maximum)
SF_BINARY(minimum)
SF_BINARY(pow)
SF_BINARY(equal)
SF_BINARY(not_equal)
SF_BINARY(less)
SF_BINARY(less_equal)
SF_BINARY(greater)
SF_BINARY(greater_equal)
SF_BINARY(logical_and)
SF_BINARY(logical_or)
SF_BINARY(logical_xor)
#undef SF_BINARY

// Signs with a number on one side.
#define SF_SIGN(sign, op)                \
  Value operator sign(Term a, float b) { \
    return with_number(op, a, b);        \
  }                                      \
  Value operator sign(float a, Term b) { \
    return with_number(op, a, b);        \
  }
SF_SIGN(+, add)
SF_SIGN(-, sub)
SF_SIGN(*, mul)
SF_SIGN(/, div)
SF_SIGN(<, less)
SF_SIGN(<=, less_equal)
SF_SIGN(>, greater)
SF_SIGN(>=, greater_equal)
#undef SF_SIGN

#define SF_ASSIGNING_SIGN(sign, op)             \
  Value& operator sign(Value& x, RightSide y) { \
    return assigned(op, x, y);                  \
  }
SF_ASSIGNING_SIGN(+=, add)
SF_ASSIGNING_SIGN(-=, sub)
SF_ASSIGNING_SIGN(*=, mul)
SF_ASSIGNING_SIGN(/=, div)
#undef SF_ASSIGNING_SIGN

Value maximum(Value a, float b, Where where) {
  return with_number(maximum, Term(a, where), b);
}
Value minimum(Value a, float b, Where where) {
  return with_number(minimum, Term(a, where), b);
}
Value pow(Value a, float b, Where where) {
  return with_number(pow, Term(a, where), b);
}

Value add_n(const std::vector<Value>& values, Where where) {
  SF_CHECK(!values.empty(), ArgumentError, "add_n got no values; wanted one at least");
  return values[0].graph().add_node("add_n", values, {}, "add_n", where).output();
}

Value accumulate(Value sum, Value part, Dtype dtype) {
  return sum.graph().add_node("accumulate", {sum, part}, AccumulateOptions{dtype}, "accumulate").output();
}

Value reduce_to_like(Value x, Value like) {
  return x.graph().add_node("reduce_to_like", {x, like}, {}, "reduce_to_like").output();
}

Value maximum_grad(Value dy, Value a, Value b) {
  return gradient("maximum_grad", dy, a, b);
}
Value minimum_grad(Value dy, Value a, Value b) {
  return gradient("minimum_grad", dy, a, b);
}
Value pow_grad_base(Value dy, Value a, Value b) {
  return gradient("pow_grad_base", dy, a, b);
}
Value pow_grad_exponent(Value dy, Value y, Value a) {
  return gradient("pow_grad_exponent", dy, y, a);
}

Value select(Value condition, Value a, Value b, Where where) {
  return a.graph().add_node("select", {condition, a, b}, {}, "select", where).output();
}
Value select(Value condition, Value a, float b, Where where) {
  return a.graph().build_at(where, [&] { return select(condition, a, number(b, Term(a, where)), where); });
}
Value select(Value condition, float a, Value b, Where where) {
  return b.graph().build_at(where, [&] { return select(condition, number(a, Term(b, where)), b, where); });
}

}  // namespace sectionflow
