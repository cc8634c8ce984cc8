#include "graph/ops/matmul.h"

#include "autodiff/gradient_registry.h"
#include "graph/nodes/layout.h"
#include "graph/nodes/matmul.h"
#include "graph/ops/layout.h"

namespace sectionflow {
namespace {

// With A, B the factors as multiplied (transposes applied): dA = dy B^T, dB = A^T dy; a factor that was given
// transposed wants the transpose of that. A matrix b that a batch shares gets the sum over the batch.
std::vector<Value> matmul_gradient(const GradientRequest& r) {
  const auto& options = r.node.options<MatmulOptions>();
  const Value a = r.input(0), b = r.input(1), dy = r.dy();
  Value da, db;
  if (r.wanted[0]) {
    da = options.transpose_a ? matmul(b, dy, {.transpose_a = options.transpose_b, .transpose_b = true})
                             : matmul(dy, b, {.transpose_a = false, .transpose_b = !options.transpose_b});
  }
  const bool shared = b.shape().rank() == 2 && a.shape().rank() > 2;
  if (r.wanted[1] && shared) {
    db = options.transpose_b ? matmul_over_rows(dy, a) : matmul_over_rows(a, dy);
  } else if (r.wanted[1]) {
    db = options.transpose_b ? matmul(dy, a, {.transpose_a = true, .transpose_b = options.transpose_a})
                             : matmul(a, dy, {.transpose_a = !options.transpose_a, .transpose_b = false});
  }
  return {da, db};
}

/// rows times a matrix, also for a single row without an axis of rows.
Value rows_times(Value rows, Value matrix, MatmulOptions options, Value like) {
  if (rows.shape().rank() > 1) return matmul(rows, matrix, options);
  return reshape_like(matmul(reshape(rows, {1, -1}), matrix, options), like);
}

// y = a^T b over all rows: da = b g^T, db = a g, row by row.
std::vector<Value> matmul_over_rows_gradient(const GradientRequest& r) {
  const Value a = r.input(0), b = r.input(1);
  return {r.wanted[0] ? rows_times(b, r.dy(), {.transpose_b = true}, a) : Value(),
          r.wanted[1] ? rows_times(a, r.dy(), {}, b) : Value()};
}

}  // namespace

void add_matmul_gradients(GradientRegistry& registry) {
  registry.add("matmul", matmul_gradient);
  registry.add("matmul_over_rows", matmul_over_rows_gradient);
}

}  // namespace sectionflow
