#pragma once

#include "base/export.h"
#include "graph/graph.h"

namespace SF_API sectionflow {

/// Rows of a table: y[i, ...] = table[indices[i], ...]. An index outside [0, V) gives a row of NaN, or of zeros where
/// the table is not of floats, and adds nothing to the table's gradient.
/// Shapes: table [V, ...], indices [...] i32 or i64; result indices' shape, then the table's without V. Any dtype.
/// Throws: ShapeError for a table without rows, ArgumentError for other indices.
Value gather(Value table, Value indices, Where where = Where::here());
/// dtable: row v is the sum of the rows of dy whose index is v, added in the order of the indices. Reads only the shape
/// of `table`. Shapes: dy like gather's result; result like the table. f32 or bf16.
Value gather_grad(Value dy, Value indices, Value table);

}  // namespace sectionflow
