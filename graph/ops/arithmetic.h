#pragma once

#include <vector>

#include "base/export.h"
#include "graph/graph.h"
#include "graph/ops/unary.h"

namespace SF_API sectionflow {

// Element-wise operations with broadcasting: shapes are aligned at the last dimension, and a dimension of 1 is
// repeated. Shapes: a, b any two that broadcast; result their broadcast. Both f32 or both bf16; both i32 or
// both i64 for add, sub, mul, maximum and minimum, where sums and products wrap around. Throws: ShapeError,
// ArgumentError for unequal dtypes.
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
/// The same beside a number that counts for every element; beside whole numbers it has to be one.
///@{
Value maximum(Value a, float b, Where where = Where::here());
Value minimum(Value a, float b, Where where = Where::here());
///@}
/// a^b as std::pow: NaN for a < 0 unless b is an integer. The gradient to b is dy y ln a, and 0 where a = 0 and b >= 0.
Value pow(Value a, Value b, Where where = Where::here());
/// The same for one exponent.
Value pow(Value a, float b, Where where = Where::here());

/// The left or right side of an operator sign, with the line where it stands: such a call has no parameter for it.
struct Term {
  Term(Value side, Where place = Where::here()) : value(side), where(place) {}
  Value value;
  Where where;
};

/// The signs for add, sub, neg, mul and div. A number on either side counts for every element; beside whole numbers it
/// has to be one, below 2^24: a float tells larger ones apart no more. Throws: ArgumentError for others.
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

/// The right side of a sign that gives its left side the result: a value, or a number that counts for every element.
struct RightSide {
  RightSide(Value of, Where place = Where::here()) : value(of), where(place) {}
  RightSide(float of, Where place = Where::here()) : number(of), is_number(true), where(place) {}
  Value value{};
  float number = 0;
  bool is_number = false;
  Where where;
};

/// x += y and its like are x = x + y: the name stands for another value from then on, and values that were made of the
/// one before stay what they are.
///@{
Value& operator+=(Value& x, RightSide y);
Value& operator-=(Value& x, RightSide y);
Value& operator*=(Value& x, RightSide y);
Value& operator/=(Value& x, RightSide y);
///@}

/// The sum of values of one type, f32 or bf16, added from left to right in f32 and rounded once: ((v0 + v1) + v2) + ...
Value add_n(const std::vector<Value>& values, Where where = Where::here());

// Comparisons, element by element, with broadcasting as that of add. Shapes: a, b any two that broadcast, of one dtype;
// result their broadcast, boolean. NaN is unequal to everything and neither less nor greater; false is less than true.
// No gradient. Throws: ShapeError, ArgumentError for unequal dtypes.
/// a = b.
Value equal(Value a, Value b, Where where = Where::here());
/// Not a = b: true where either is NaN.
Value not_equal(Value a, Value b, Where where = Where::here());
/// a < b.
Value less(Value a, Value b, Where where = Where::here());
/// a <= b.
Value less_equal(Value a, Value b, Where where = Where::here());
/// a > b.
Value greater(Value a, Value b, Where where = Where::here());
/// a >= b.
Value greater_equal(Value a, Value b, Where where = Where::here());

/// The signs for less, less_equal, greater and greater_equal. A number on either side counts for every element. == and
/// != are none of them: they tell whether two handles are of one value; see equal.
///@{
inline Value operator<(Term a, Term b) {
  return less(a.value, b.value, a.where);
}
inline Value operator<=(Term a, Term b) {
  return less_equal(a.value, b.value, a.where);
}
inline Value operator>(Term a, Term b) {
  return greater(a.value, b.value, a.where);
}
inline Value operator>=(Term a, Term b) {
  return greater_equal(a.value, b.value, a.where);
}
Value operator<(Term a, float b);
Value operator<(float a, Term b);
Value operator<=(Term a, float b);
Value operator<=(float a, Term b);
Value operator>(Term a, float b);
Value operator>(float a, Term b);
Value operator>=(Term a, float b);
Value operator>=(float a, Term b);
///@}

// Of booleans, element by element, with broadcasting as that of add. Shapes: a, b any two that broadcast; result their
// broadcast. No gradient. Throws: ShapeError, ArgumentError for other dtypes. `logical_not` is in graph/ops/unary.h.
/// Both.
Value logical_and(Value a, Value b, Where where = Where::here());
/// Either or both.
Value logical_or(Value a, Value b, Where where = Where::here());
/// One alone.
Value logical_xor(Value a, Value b, Where where = Where::here());

/// y = condition ? a : b, element by element, with broadcasting as that of add.
/// Shapes: condition (boolean), a and b (of one dtype, any) broadcast together; result their broadcast, of a's dtype.
/// The gradient goes to whichever was chosen. Throws: ShapeError, ArgumentError for other dtypes.
Value select(Value condition, Value a, Value b, Where where = Where::here());
/// The same with a number that counts for every element; beside whole numbers it has to be one.
///@{
Value select(Value condition, Value a, float b, Where where = Where::here());
Value select(Value condition, float a, Value b, Where where = Where::here());
///@}

}  // namespace sectionflow
