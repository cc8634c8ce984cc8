#pragma once

#include "kernels/cpu/onednn_call.h"
#include "kernels/matmul_problem.h"

namespace sectionflow {

/// How oneDNN sees the tensors of a problem: densely, as they lie, since other strides make it fall back to gemm.
struct MatmulLayout {
  dnnl::memory::desc a, b, y;
};
MatmulLayout matmul_layout(const MatmulProblem& problem);

/// A call with the arguments a, b, y.
OneDnnCall make_matmul_call(OneDnn& onednn, const MatmulProblem& problem);

}  // namespace sectionflow
