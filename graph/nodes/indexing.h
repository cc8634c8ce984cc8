#pragma once

#include "base/export.h"
#include "graph/ops/indexing.h"

namespace SF_API sectionflow {

/// dtable: row v is the sum of the rows of dy whose index is v, added in the order of the indices. Reads only the shape
/// of `table`. Shapes: dy like gather's result; result like the table. f32 or bf16.
Value gather_grad(Value dy, Value indices, Value table);

/// gather with a row of zeros for an index outside of the table: what gradients of sums by index give such a row.
Value gather_present(Value table, Value indices);

}  // namespace sectionflow
