#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>

#include "graph/nodes/convolution.h"
#include "graph/nodes/window.h"
#include "graph/ops/convolution.h"
#include "kernels/matmul_problem.h"

// Which matrices a library multiplies for an op: plain numbers, without the library.
namespace sectionflow::gpu {

/// Whether a convolution is a matrix product of the pixels' channels as they lie: one tap, over each pixel once.
inline bool is_pointwise(const ConvolutionGeometry& g) {
  return g.format == DataFormat::nhwc && g.groups == 1 &&
         std::all_of(g.axes.begin(), g.axes.end(), [](const WindowAxis& axis) {
           return axis.window == 1 && axis.stride == 1 && axis.before == 0 && axis.after == 0;
         });
}
inline std::int64_t num_pixels(const ConvolutionGeometry& g) {
  std::int64_t pixels = g.batch;
  for (const WindowAxis& axis : g.axes) pixels *= axis.size;
  return pixels;
}
/// y [pixels, F] = x [pixels, C] w [C, F].
inline MatmulProblem pointwise_forward(const ConvolutionGeometry& g) {
  return {.rows = num_pixels(g), .inner = g.channels, .columns = g.filters};
}
/// dx [pixels, C] = dy [pixels, F] w^T, w [C, F].
inline MatmulProblem pointwise_backward_input(const ConvolutionGeometry& g) {
  return {.rows = num_pixels(g), .inner = g.filters, .columns = g.channels, .transpose_b = true};
}
/// dw [C, F] = x^T dy, x [pixels, C], dy [pixels, F].
inline MatmulProblem pointwise_backward_filter(const ConvolutionGeometry& g) {
  return {.rows = g.channels, .inner = num_pixels(g), .columns = g.filters, .transpose_a = true};
}

/// A matrix that lies column by column.
struct ColumnMatrix {
  std::int64_t rows = 0, columns = 0;
  bool transposed = false;  ///< whether the product reads it the other way round
  std::int64_t pitch = 0;   ///< from one column to the next; 0: they lie densely

  std::int64_t leading_dimension() const { return pitch == 0 ? rows : pitch; }
  /// REQUIRES: they lie densely.
  std::int64_t num_elements() const { return rows * columns; }
};

/// result = first second for each of a batch, one behind the other, in the words of BLAS. What lies row by row is, read
/// column by column, its transpose; and y^T = b^T a^T. So b comes first, no data moves, and only what our op itself
/// reads transposed is read transposed.
struct Gemm {
  std::int64_t batch = 1;
  ColumnMatrix first, second, result;
};

/// Nothing when there is nothing to multiply, or a number is larger than the libraries take: 32 bits for dimensions,
/// the blocks of a grid's third dimension for a batch.
inline std::optional<Gemm> column_gemm(const MatmulProblem& p) {
  constexpr std::int64_t kMostRows = std::numeric_limits<std::int32_t>::max(), kMostMatrices = 65535;
  const auto fits = [](std::int64_t count, std::int64_t most) { return count >= 1 && count <= most; };
  if (!fits(p.rows, kMostRows) || !fits(p.inner, kMostRows) || !fits(p.columns, kMostRows)) return std::nullopt;
  if (!fits(p.batch, kMostMatrices)) return std::nullopt;
  const auto stored = [](std::int64_t rows, std::int64_t columns, bool transposed) -> ColumnMatrix {
    if (transposed) return {.rows = rows, .columns = columns, .transposed = true};
    return {.rows = columns, .columns = rows};
  };
  return Gemm{.batch = p.batch,
              .first = stored(p.inner, p.columns, p.transpose_b),
              .second = stored(p.rows, p.inner, p.transpose_a),
              .result = {.rows = p.columns, .columns = p.rows}};
}

}  // namespace sectionflow::gpu
