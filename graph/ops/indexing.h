#pragma once

#include <cstdint>

#include "base/export.h"
#include "graph/graph.h"

namespace SF_API sectionflow {

/// Rows of a table: y[i, ...] = table[indices[i], ...]. An index outside [0, V) gives a row of NaN, or of zeros where
/// the table is not of floats, and adds nothing to the table's gradient.
/// Shapes: table [V, ...], indices [...] i32 or i64; result indices' shape, then the table's without V. Any dtype.
/// Throws: ShapeError for a table without rows, ArgumentError for other indices.
Value gather(Value table, Value indices, Where where = Where::here());

/// How many classes one_hot tells apart.
struct OneHotOptions {
  std::int64_t depth = 0;  ///< number of classes; must be set
  float on_value = 1;      ///< at the index
  float off_value = 0;     ///< elsewhere
};

/// A row for each index: on_value at it, off_value elsewhere. An index outside [0, depth) gives a row of off_value.
/// Shapes: indices [...] i32 or i64; result [..., depth] f32. No gradient. Throws: ArgumentError for other dtypes and
/// depth < 1.
Value one_hot(Value indices, OneHotOptions options, Where where = Where::here());

/// The index of the largest element along the last axis; the first of several; a NaN counts as largest.
/// Shapes: x [..., C] f32 or bf16 with C >= 1; result [...] i32. No gradient. Throws: ShapeError for a scalar or C = 0.
Value argmax(Value x, Where where = Where::here());

}  // namespace sectionflow
