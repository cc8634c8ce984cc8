#pragma once

#include "graph/graph.h"

namespace sectionflow {

struct MatmulOptions {
  bool transpose_a = false;  ///< use a's transpose: a is then [K, M]
  bool transpose_b = false;  ///< use b's transpose: b is then [N, K]
};

/// y = a b. Shapes: a [M, K], b [K, N], y [M, N]. f32. Throws: ShapeError when ranks or inner dimensions do not fit.
Value matmul(Value a, Value b, MatmulOptions options = {}, Where where = Where::here());

}  // namespace sectionflow
