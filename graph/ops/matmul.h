#pragma once

#include "base/export.h"
#include "graph/graph.h"

namespace SF_API sectionflow {

/// Which of the matrices are read the other way round.
struct MatmulOptions {
  bool transpose_a = false;  ///< use a's transpose: its last two dimensions are then [K, M]
  bool transpose_b = false;  ///< use b's transpose: its last two dimensions are then [N, K]
};

/// y = a b, for each of a batch of matrices.
/// Shapes: a [..., M, K]; b [..., K, N] with the leading dimensions of a, or one [K, N] for all; y [..., M, N]. f32 or
/// bf16. Throws: ShapeError when ranks, leading or inner dimensions do not fit; ArgumentError for other dtypes.
Value matmul(Value a, Value b, MatmulOptions options = {}, Where where = Where::here());

}  // namespace sectionflow
