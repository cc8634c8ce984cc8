#pragma once

#include <cstdint>

#include "base/export.h"
#include "base/shape.h"
#include "graph/ops/matmul.h"

namespace SF_API sectionflow {

/// y = sum of the outer products of a's and b's rows: the gradient of one matrix that multiplied many.
/// Shapes: a [..., M], b [..., N] with equal leading dimensions, result [M, N].
Value matmul_over_rows(Value a, Value b);

/// x + a b, where a and b are as those of matmul: the product is added as it is computed, and y may lie over x.
/// Shapes: x like matmul(a, b, options). f32 or bf16; of bf16 the sum is rounded once.
Value add_matmul(Value x, Value a, Value b, MatmulOptions options = {});

/// How a wide product of many rows is computed: one block of its rows after the other, so that it has the same bits in
/// parts of whole blocks as at once.
struct ProductBlocks {
  std::int64_t rows = 0;     ///< of a block, those of all leading dimensions laid below each other; 0: no blocks
  std::int64_t entries = 1;  ///< a part has a multiple of so many, along the first dimension
  bool sums = false;         ///< y is the sum over the blocks: a and b have the rows; otherwise a and y have them

  explicit operator bool() const { return rows > 0; }
};
/// Of products of rows that are at least so long.
inline constexpr std::int64_t kLeastWidthOfBlocks = 24576;
/// Those of the op "matmul" for these shapes; a function of the whole a and b.
ProductBlocks matmul_blocks(const Shape& a, const Shape& b, const MatmulOptions& options);
/// The same for the op "matmul_over_rows".
ProductBlocks over_rows_blocks(const Shape& a, const Shape& b);

}  // namespace sectionflow
