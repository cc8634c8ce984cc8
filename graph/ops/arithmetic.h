#pragma once

#include <vector>

#include "graph/graph.h"

namespace sectionflow {

// Element-wise operations with broadcasting: shapes are aligned at the last dimension, and a dimension of 1 is
// repeated. Shapes: a, b any two that broadcast; result their broadcast. Both f32, or both i64 for add, sub and mul.
// Throws: ShapeError, ArgumentError for unequal dtypes.
Value add(Value a, Value b);
Value sub(Value a, Value b);
Value mul(Value a, Value b);
Value div(Value a, Value b);

inline Value operator+(Value a, Value b) {
  return add(a, b);
}
inline Value operator-(Value a, Value b) {
  return sub(a, b);
}
inline Value operator*(Value a, Value b) {
  return mul(a, b);
}
inline Value operator/(Value a, Value b) {
  return div(a, b);
}
Value operator+(Value a, float b);
Value operator-(Value a, float b);
Value operator*(Value a, float b);
Value operator*(float a, Value b);
Value operator/(Value a, float b);

/// The sum of f32 values of one shape, added from left to right: ((v0 + v1) + v2) + ...
Value add_n(const std::vector<Value>& values);

/// The sum of `x` over the dimensions along which `like` was repeated to reach x's shape: the gradient of broadcasting.
/// Reads nothing of `like` but its shape. Shapes: x [...], like one that broadcasts to x; result like `like`.
Value reduce_to_like(Value x, Value like);

}  // namespace sectionflow
