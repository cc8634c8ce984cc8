#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "graph/ops/matmul.h"
#include "kernels/kernel.h"

namespace sectionflow {

/// y = a b for each of a batch of matrices. Shapes: a [batch, rows, inner], b [batch, inner, columns], y [batch, rows,
/// columns]; a factor that is given transposed lies with its last two dimensions exchanged.
struct MatmulProblem {
  std::int64_t batch = 1;
  std::int64_t rows = 0, inner = 0, columns = 0;
  bool transpose_a = false, transpose_b = false;
};

/// Product of the dimensions of a shape but for the last `num_last`.
inline std::int64_t leading_product(const Shape& shape, int num_last) {
  std::int64_t product = 1;
  for (int axis = 0; axis < shape.rank() - num_last; ++axis) product *= shape[axis];
  return product;
}

/// The problem of the ops "matmul" and "add_matmul": a and b are the last two inputs.
inline MatmulProblem matmul_problem(const KernelRequest& request) {
  const auto& options = request.node.options<MatmulOptions>();
  const Shape& a = request.inputs[request.inputs.size() - 2].shape;
  const Shape& y = request.outputs[0].shape;
  const bool shared = request.inputs.back().shape.rank() == 2;
  return {.batch = shared ? 1 : leading_product(a, 2),
          .rows = shared ? leading_product(y, 1) : y[-2],
          .inner = a[options.transpose_a ? -2 : -1],
          .columns = y[-1],
          .transpose_a = options.transpose_a,
          .transpose_b = options.transpose_b};
}

/// The shape of input `index` in the whole node, of which the request may be a part by its rows.
inline Shape whole_shape(const KernelRequest& request, std::size_t index) {
  std::vector<std::int64_t> dims = request.inputs[index].shape.dims();
  if (request.part) dims[0] = request.part->rows;
  return Shape(std::move(dims));
}

/// The problem of the op "matmul_over_rows".
inline MatmulProblem matmul_over_rows_problem(const KernelRequest& request) {
  const Shape& a = request.inputs[0].shape;
  return {.rows = a[-1], .inner = leading_product(a, 1), .columns = request.inputs[1].shape[-1], .transpose_a = true};
}

}  // namespace sectionflow
