#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "graph/nodes/layout.h"
#include "graph/ops/layout.h"
#include "kernels/copies.h"
#include "kernels/kernel.h"

namespace sectionflow {

/// One axis of a transposed tensor y, with its step in x and in y, in elements.
struct TransposedAxis {
  std::int64_t dim, x_step, y_step;
};

/// The axes of y in their order, but those of size 1; neighbours that are neighbours in x too are one.
inline std::vector<TransposedAxis> collapsed_axes(const Shape& x, const std::vector<int>& permutation) {
  const std::vector<std::int64_t> x_strides = dense_strides(x);
  std::vector<TransposedAxis> axes;
  for (int axis : permutation) {
    const std::int64_t dim = x[axis], step = x_strides[axis];
    if (dim == 1) continue;
    if (!axes.empty() && axes.back().x_step == step * dim) {
      axes.back().dim *= dim;
      axes.back().x_step = step;
    } else {
      axes.push_back({dim, step, 0});
    }
  }
  std::int64_t y_step = 1;
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    axis->y_step = y_step;
    y_step *= axis->dim;
  }
  return axes;
}

/// How the op "transpose" moves what. Either `axes` are planes to be transposed: the last of them, along which y runs,
/// is not the one along which x runs; or rows stay together, and `axes` is empty.
struct Transposition {
  std::size_t element_bytes;  ///< a short row that stays together is moved as one element
  std::vector<TransposedAxis> axes;
  StridedCopy copy;  ///< the same element by element
};

/// `request`: of x with at least one element.
inline Transposition transposition(const KernelRequest& request) {
  const TensorType& x = request.inputs[0];
  const auto permutation = normalized_permutation(request.node.options<TransposeOptions>().permutation, x.shape.rank(),
                                                  request.node.label());
  Transposition result{.element_bytes = dtype_bytes(x.dtype),
                       .axes = collapsed_axes(x.shape, permutation),
                       .copy = {.element_bytes = dtype_bytes(x.dtype),
                                .y = request.outputs[0].shape,
                                .num_x_elements = x.shape.num_elements()}};
  const std::vector<std::int64_t> x_strides = dense_strides(x.shape);
  for (int axis : permutation) result.copy.strides.push_back(x_strides[axis]);
  std::vector<TransposedAxis>& axes = result.axes;
  const bool keeps_rows = axes.size() > 1 && axes.back().x_step == 1;
  const std::size_t row_bytes = keeps_rows ? static_cast<std::size_t>(axes.back().dim) * result.element_bytes : 0;
  if (row_bytes == 2 || row_bytes == 4 || row_bytes == 8 || row_bytes == 16) {
    for (TransposedAxis& axis : axes) {
      axis.x_step /= axes.back().dim;
      axis.y_step /= axes.back().dim;
    }
    axes.pop_back();
    result.element_bytes = row_bytes;
  } else if (axes.size() < 2 || keeps_rows) {
    axes.clear();
  }
  return result;
}

}  // namespace sectionflow
