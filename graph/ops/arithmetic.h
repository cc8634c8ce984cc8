#pragma once

#include <vector>

#include "base/export.h"
#include "graph/graph.h"
#include "graph/ops/unary.h"

namespace SF_API sectionflow {

// Element-wise operations with broadcasting: shapes are aligned at the last dimension, and a dimension of 1 is
// repeated. Shapes: a, b any two that broadcast; result their broadcast. Both f32 or both bf16, or both i64 for add,
// sub, mul, maximum and minimum. Throws: ShapeError, ArgumentError for unequal dtypes.
/// y = a + b.
Value add(Value a, Value b, Where where = Where::here());
/// y = a - b.
Value sub(Value a, Value b, Where where = Where::here());
/// y = a b.
Value mul(Value a, Value b, Where where = Where::here());
/// y = a / b.
Value div(Value a, Value b, Where where = Where::here());
/// The larger; NaN where either is NaN. Where a and b are equal, each gets half of the gradient.
Value maximum(Value a, Value b, Where where = Where::here());
/// The smaller, as maximum.
Value minimum(Value a, Value b, Where where = Where::here());
/// a^b as std::pow: NaN for a < 0 unless b is an integer. The gradient to b is dy y ln a, and 0 where a = 0 and b >= 0.
Value pow(Value a, Value b, Where where = Where::here());
/// The same for one exponent.
Value pow(Value a, float b, Where where = Where::here());

/// The left or right side of an operator sign, with the line where it stands: such a call has no parameter for it.
struct Term {
  Term(Value value, Where where = Where::here()) : value(value), where(where) {}
  Value value;
  Where where;
};

/// The signs for add, sub, neg, mul and div. A number on either side counts for every element.
///@{
inline Value operator+(Term a, Term b) {
  return add(a.value, b.value, a.where);
}
inline Value operator-(Term a, Term b) {
  return sub(a.value, b.value, a.where);
}
inline Value operator-(Term x) {
  return neg(x.value, x.where);
}
inline Value operator*(Term a, Term b) {
  return mul(a.value, b.value, a.where);
}
inline Value operator/(Term a, Term b) {
  return div(a.value, b.value, a.where);
}
Value operator+(Term a, float b);
Value operator+(float a, Term b);
Value operator-(Term a, float b);
Value operator-(float a, Term b);
Value operator*(Term a, float b);
Value operator*(float a, Term b);
Value operator/(Term a, float b);
Value operator/(float a, Term b);
///@}

/// The sum of values of one type, f32 or bf16, added from left to right in f32 and rounded once: ((v0 + v1) + v2) + ...
Value add_n(const std::vector<Value>& values, Where where = Where::here());

/// sum + part, added in f32 and rounded once to `dtype`: a step of a sum of bf16 values that is carried in f32 and
/// rounded in its last step. Shapes: equal; result like `sum`. `part` is bf16, `sum` and `dtype` f32 or bf16.
Value accumulate(Value sum, Value part, Dtype dtype);

/// Options of the op "accumulate".
struct AccumulateOptions {
  Dtype dtype = Dtype::f32;  ///< of the result
};

/// The sum of `x` over the dimensions along which `like` was repeated to reach x's shape: the gradient of broadcasting.
/// Reads nothing of `like` but its shape. Shapes: x [...], like one that broadcasts to x; result like `like`.
Value reduce_to_like(Value x, Value like);

/// dy where a > b, dy / 2 where a = b, else 0: the gradient of maximum to a. Shapes: dy [...], a and b that broadcast
/// to dy; result like dy. f32 or bf16.
Value maximum_grad(Value dy, Value a, Value b);
/// The same for minimum: dy where a < b.
Value minimum_grad(Value dy, Value a, Value b);
/// dy b a^(b - 1), and 0 where b = 0: the gradient of pow to a. Shapes as above.
Value pow_grad_base(Value dy, Value a, Value b);
/// dy y ln a from y = a^b, and 0 where a = 0 and y is finite: the gradient of pow to b. Shapes as above.
Value pow_grad_exponent(Value dy, Value y, Value a);

}  // namespace sectionflow
