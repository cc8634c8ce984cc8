#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/launch.h"

namespace sectionflow::gpu {

/// y[m][c][r] = x[m][r][c] for a batch of matrices; the numbers are steps in elements, columns of x and rows of y lie
/// side by side.
struct MatrixTranspose {
  std::int64_t batch = 1;
  std::int64_t rows = 0, columns = 0;  ///< of x
  std::int64_t x_batch = 0, x_row = 0;
  std::int64_t y_batch = 0, y_row = 0;

  /// Whether each element of y lies where it lies in x.
  bool is_identity() const {
    return (batch == 1 || x_batch == y_batch) && (rows == 1 || x_row == 1) && (columns == 1 || y_row == 1);
  }
  /// What undoes it.
  MatrixTranspose inverse() const {
    return {.batch = batch,
            .rows = columns,
            .columns = rows,
            .x_batch = y_batch,
            .x_row = y_row,
            .y_batch = x_batch,
            .y_row = x_row};
  }
};

/// A block a tile, which lies in shared memory in between, so that both sides are read and written line by line.
/// Elements are moved as they are.
template <class Element>
struct TransposeTiles {
  static constexpr int kTile = 32, kThreads = 256;
  static constexpr std::int64_t kPitch = kTile + 1;  // a column of the tile then meets each bank once

  MatrixTranspose shape;
  const Element* x;
  Element* y;

  std::int64_t row_tiles() const { return (shape.rows + kTile - 1) / kTile; }
  std::int64_t column_tiles() const { return (shape.columns + kTile - 1) / kTile; }
  LaunchShape launch_shape() const {
    return {.blocks = shape.batch * row_tiles() * column_tiles(),
            .threads = kThreads,
            .shared_bytes = static_cast<std::size_t>(kTile * kPitch) * sizeof(Element)};
  }

  template <class Thread>
  SF_HOST_DEVICE void operator()(Thread& thread) const {
    const std::int64_t across = (shape.columns + kTile - 1) / kTile, down = (shape.rows + kTile - 1) / kTile;
    const std::int64_t matrix = thread.block() / across / down;
    const std::int64_t first_row = thread.block() / across % down * kTile;
    const std::int64_t first_column = thread.block() % across * kTile;
    const Element* from = x + matrix * shape.x_batch;
    Element* to = y + matrix * shape.y_batch;
    auto tile = thread.template shared<Element>(0, kTile * kPitch);
    const int lane = thread.index() % kTile;
    for (int i = thread.index() / kTile; i < kTile; i += kThreads / kTile) {
      const std::int64_t row = first_row + i, column = first_column + lane;
      if (row < shape.rows && column < shape.columns) tile[i * kPitch + lane] = from[row * shape.x_row + column];
    }
    thread.barrier();
    for (int i = thread.index() / kTile; i < kTile; i += kThreads / kTile) {
      const std::int64_t row = first_row + lane, column = first_column + i;
      if (row >= shape.rows || column >= shape.columns) continue;
      const Element element = tile[lane * kPitch + i];
      to[column * shape.y_row + row] = element;
    }
  }
};

template <class Element>
void transpose_elements(void* queue, const MatrixTranspose& shape, const void* x, void* y) {
  const TransposeTiles<Element> tiles{shape, static_cast<const Element*>(x), static_cast<Element*>(y)};
  launch_blocks(queue, tiles.launch_shape(), tiles);
}
/// Of elements of 4 bytes (f32) or 2 (bf16).
inline void transpose_matrices(void* queue, const MatrixTranspose& shape, std::size_t element_bytes, const void* x,
                               void* y) {
  if (element_bytes == sizeof(std::uint16_t)) {
    transpose_elements<std::uint16_t>(queue, shape, x, y);
  } else {
    transpose_elements<std::uint32_t>(queue, shape, x, y);
  }
}

}  // namespace sectionflow::gpu
