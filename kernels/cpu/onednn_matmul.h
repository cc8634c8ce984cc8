#pragma once

#include <cstdint>

#include "kernels/cpu/onednn_call.h"

namespace sectionflow {

/// y = a b for each of a batch of matrices. Shapes: a [batch, rows, inner], b [batch, inner, columns], y [batch, rows,
/// columns]; a factor that is given transposed lies with its last two dimensions exchanged.
struct MatmulProblem {
  std::int64_t batch = 1;
  std::int64_t rows = 0, inner = 0, columns = 0;
  bool transpose_a = false, transpose_b = false;
};

/// How oneDNN sees the tensors of a problem: densely, as they lie, since other strides make it fall back to gemm.
struct MatmulLayout {
  dnnl::memory::desc a, b, y;
};
MatmulLayout matmul_layout(const MatmulProblem& problem);

/// A call with the arguments a, b, y.
OneDnnCall make_matmul_call(OneDnn& onednn, const MatmulProblem& problem);

}  // namespace sectionflow
