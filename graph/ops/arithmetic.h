#pragma once

#include <vector>

#include "graph/graph.h"

namespace sectionflow {

// Element-wise operations with broadcasting: shapes are aligned at the last dimension, and a dimension of 1 is
// repeated. Shapes: a, b any two that broadcast; result their broadcast. Both f32, or both i64 for add, sub and mul.
// Throws: ShapeError, ArgumentError for unequal dtypes.
Value add(Value a, Value b, Where where = Where::here());
Value sub(Value a, Value b, Where where = Where::here());
Value mul(Value a, Value b, Where where = Where::here());
Value div(Value a, Value b, Where where = Where::here());

/// The left or right side of an operator sign, with the line where it stands: such a call has no parameter for it.
struct Term {
  Term(Value value, Where where = Where::here()) : value(value), where(where) {}
  Value value;
  Where where;
};

inline Value operator+(Term a, Term b) {
  return add(a.value, b.value, a.where);
}
inline Value operator-(Term a, Term b) {
  return sub(a.value, b.value, a.where);
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

/// The sum of f32 values of one shape, added from left to right: ((v0 + v1) + v2) + ...
Value add_n(const std::vector<Value>& values, Where where = Where::here());

/// The sum of `x` over the dimensions along which `like` was repeated to reach x's shape: the gradient of broadcasting.
/// Reads nothing of `like` but its shape. Shapes: x [...], like one that broadcasts to x; result like `like`.
Value reduce_to_like(Value x, Value like);

}  // namespace sectionflow
