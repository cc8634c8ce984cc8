#pragma once

#include "base/export.h"
#include "graph/ops/matmul.h"

namespace SF_API sectionflow {

/// y = sum of the outer products of a's and b's rows: the gradient of one matrix that multiplied many.
/// Shapes: a [..., M], b [..., N] with equal leading dimensions, result [M, N].
Value matmul_over_rows(Value a, Value b);

}  // namespace sectionflow
