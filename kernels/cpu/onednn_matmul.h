#pragma once

#include <cstdint>
#include <memory>

#include "kernels/cpu/onednn_call.h"
#include "kernels/matmul_problem.h"

namespace sectionflow {

/// How oneDNN sees the tensors of a problem, factors of one dtype and y of another or the same: densely, as they lie,
/// since other strides make it fall back to gemm.
struct MatmulLayout {
  dnnl::memory::desc a, b, y;
};
MatmulLayout matmul_layout(const MatmulProblem& problem, Dtype factors = Dtype::f32, Dtype y = Dtype::f32);

/// A call with the arguments a, b, y; y is f32.
OneDnnCall make_matmul_call(OneDnn& onednn, const MatmulProblem& problem, Dtype factors = Dtype::f32);

/// Whether oneDNN's code for bf16 may be taken for a product with so many terms. On AMX 2.6 has wrong code, which gives
/// wrong numbers or an illegal instruction, for 63 of them and some remainders of rows and columns.
bool multiplies_bf16_of(std::int64_t inner);

/// y = a b of tensors of one dtype, all at once. Of bf16 the sums are f32; nullptr where oneDNN has no code for them.
std::unique_ptr<Kernel> whole_product_kernel(OneDnn& onednn, const MatmulProblem& problem, Dtype dtype = Dtype::f32);

/// y = x + a b of f32 tensors, inputs x, a, b, all at once; y may lie over x.
std::unique_ptr<Kernel> added_product_kernel(OneDnn& onednn, const MatmulProblem& problem);

}  // namespace sectionflow
