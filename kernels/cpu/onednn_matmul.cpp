#include "kernels/cpu/onednn_matmul.h"

namespace sectionflow {
namespace {

using dnnl::memory;

/// Matrices of `rows` x `columns` that are stored row by row, or column by column if they are given transposed.
memory::desc matrix_layout(std::int64_t batch, std::int64_t rows, std::int64_t columns, bool is_transposed) {
  using tag = memory::format_tag;
  if (batch == 1) return {{rows, columns}, memory::data_type::f32, is_transposed ? tag::ba : tag::ab};
  return {{batch, rows, columns}, memory::data_type::f32, is_transposed ? tag::acb : tag::abc};
}

}  // namespace

MatmulLayout matmul_layout(const MatmulProblem& p) {
  return {matrix_layout(p.batch, p.rows, p.inner, p.transpose_a),
          matrix_layout(p.batch, p.inner, p.columns, p.transpose_b), matrix_layout(p.batch, p.rows, p.columns, false)};
}

OneDnnCall make_matmul_call(OneDnn& onednn, const MatmulProblem& problem) {
  const auto [a, b, y] = matmul_layout(problem);
  const auto description = describe_matmul(onednn, a, b, y);
  return {onednn, description, {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, y}}};
}

}  // namespace sectionflow
