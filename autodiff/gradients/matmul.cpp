#include "graph/ops/matmul.h"

#include "autodiff/gradient_registry.h"
#include "graph/nodes/layout.h"
#include "graph/nodes/matmul.h"
#include "graph/ops/layout.h"

namespace sectionflow {
namespace {

// With A, B the factors as multiplied (transposes applied): dA = dy B^T, dB = A^T dy; a factor that was given
// transposed wants the transpose of that. A matrix b that a batch shares gets the sum over the batch.
std::vector<Value> factor_gradients(const GradientRequest& r, int first) {
  const auto& options = r.node.options<MatmulOptions>();
  const Value a = r.input(first), b = r.input(first + 1), dy = r.dy();
  const bool wants_a = r.wanted[static_cast<std::size_t>(first)],
             wants_b = r.wanted[static_cast<std::size_t>(first + 1)];
  Value da, db;
  if (wants_a) {
    da = options.transpose_a ? matmul(b, dy, {.transpose_a = options.transpose_b, .transpose_b = true})
                             : matmul(dy, b, {.transpose_a = false, .transpose_b = !options.transpose_b});
  }
  const bool shared = b.shape().rank() == 2 && a.shape().rank() > 2;
  if (wants_b && shared) {
    db = options.transpose_b ? matmul_over_rows(dy, a) : matmul_over_rows(a, dy);
  } else if (wants_b) {
    db = options.transpose_b ? matmul(dy, a, {.transpose_a = true, .transpose_b = options.transpose_a})
                             : matmul(a, dy, {.transpose_a = !options.transpose_a, .transpose_b = false});
  }
  return {da, db};
}

std::vector<Value> matmul_gradient(const GradientRequest& r) {
  return factor_gradients(r, 0);
}

std::vector<Value> add_matmul_gradient(const GradientRequest& r) {
  std::vector<Value> gradients = factor_gradients(r, 1);
  gradients.insert(gradients.begin(), r.wanted[0] ? r.dy() : Value());
  return gradients;
}

/// x [.., C] as the rows of a matrix.
Value as_rows(Value x) {
  return x.shape().rank() == 2 ? x : reshape(x, {-1, x.shape()[-1]});
}

/// `sum` plus the gradient of a factor, which is a product of matrices too. Invalid where it is none of two matrices,
/// and where it may be computed in blocks, which run in parts.
template <int first>
Value added_to_sum(const GradientRequest& r, int input, Value sum) {
  if (input < first) return {};
  const auto& options = r.node.options<MatmulOptions>();
  const Value a = r.input(first), b = r.input(first + 1), dy = r.dy();
  if (b.shape().rank() != 2 || (input > first && !sum.shape().is_static())) return {};
  const auto is_wide = [](const Value& v) { return v.shape()[-1] == kDynamic || v.shape()[-1] >= kLeastWidthOfBlocks; };
  if (is_wide(a) || is_wide(b) || is_wide(dy) || b.shape()[0] == kDynamic || b.shape()[0] >= kLeastWidthOfBlocks) {
    return {};
  }
  if (input == first) {
    return options.transpose_a ? add_matmul(sum, b, dy, {.transpose_a = options.transpose_b, .transpose_b = true})
                               : add_matmul(sum, dy, b, {.transpose_a = false, .transpose_b = !options.transpose_b});
  }
  // Rows of no elements cannot be told from each other.
  if ((a.shape().rank() > 2 && a.shape()[-1] == 0) || (dy.shape().rank() > 2 && dy.shape()[-1] == 0)) return {};
  const Value rows = as_rows(a), dy_rows = as_rows(dy);
  return options.transpose_b ? add_matmul(sum, dy_rows, rows, {.transpose_a = true, .transpose_b = options.transpose_a})
                             : add_matmul(sum, rows, dy_rows, {.transpose_a = !options.transpose_a});
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
  registry.add("matmul", matmul_gradient, {.added_to_sum = added_to_sum<0>});
  registry.add("add_matmul", add_matmul_gradient, {.added_to_sum = added_to_sum<1>});
  registry.add("matmul_over_rows", matmul_over_rows_gradient);
}

}  // namespace sectionflow
