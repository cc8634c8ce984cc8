#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/positions.h"
#include "kernels/cuda/unroll.h"

/// Matrix products in tiles: y[z][m][n] = sum over k of a(z, m, k) b(z, n, k), each z a product of its own.
///
/// An **operand** is a struct of plain values that says where its numbers lie, with its lines (a's rows, b's columns)
/// and the elements summed over looked up apart, so that each is worked out once for many elements:
///   Outer outer(z, line), Inner inner(k), float at(Outer, Inner), bool along_inner()
/// along_inner: neighbouring k lie side by side in memory, not neighbouring lines. Sums are fused multiply-adds in f32,
/// in the order of k; long ones are cut, by shape alone, into some whose results are added in order, in double.
namespace sectionflow::gpu {

/// Where element i of a dimension lies: dimensions that are two in memory, such as an image and its pixel, have a step
/// for each.
class Steps {
 public:
  Steps() = default;
  explicit Steps(std::int64_t step) : outer_step_(step) {}
  /// Element i is element i % inner of number i / inner.
  Steps(std::int64_t inner, std::int64_t outer_step, std::int64_t inner_step)
      : inner_(inner), outer_step_(outer_step), inner_step_(inner_step) {}

  SF_HOST_DEVICE std::int64_t offset(std::int64_t i) const {
    const std::int64_t rest = inner_.cut(i);
    return i * outer_step_ + rest * inner_step_;
  }
  /// Whether elements lie side by side, but for where an outer one ends.
  bool are_dense() const { return (inner_.divisor() == 1 ? outer_step_ : inner_step_) == 1; }

 private:
  Divisor inner_;
  std::int64_t outer_step_ = 0, inner_step_ = 0;
};

/// An operand that lies in memory.
struct MatrixOperand {
  using Outer = std::int64_t;
  using Inner = std::int64_t;
  const float* data = nullptr;
  std::int64_t batch_step = 0;
  Steps lines{}, elements{};
  bool is_along_inner = true;

  MatrixOperand(const float* data, std::int64_t batch_step, const Steps& lines, const Steps& elements)
      : data(data), batch_step(batch_step), lines(lines), elements(elements), is_along_inner(!lines.are_dense()) {}

  SF_HOST_DEVICE bool along_inner() const { return is_along_inner; }
  SF_HOST_DEVICE Outer outer(std::int64_t z, std::int64_t line) const { return z * batch_step + lines.offset(line); }
  SF_HOST_DEVICE Inner inner(std::int64_t k) const { return elements.offset(k); }
  SF_HOST_DEVICE float at(Outer line, Inner element) const { return data[line + element]; }
};

/// Where y lies.
struct ProductResult {
  float* data = nullptr;
  std::int64_t batch_step = 0;
  Steps rows{};
  std::int64_t column_step = 1;

  SF_HOST_DEVICE void store(std::int64_t z, std::int64_t m, std::int64_t n, float value) const {
    data[z * batch_step + rows.offset(m) + n * column_step] = value;
  }
};

struct ProductSizes {
  std::int64_t batches = 1, rows = 0, columns = 0, inner = 0;
  std::int64_t num_results() const { return batches * rows * columns; }
};

/// How a block cuts a product: kRows x kColumns results, kEachRows x kEachColumns a thread, kSlab elements at a time.
template <int rows, int columns, int each_rows, int each_columns>
struct ProductTile {
  static constexpr int kRows = rows, kColumns = columns, kEachRows = each_rows, kEachColumns = each_columns;
  static constexpr int kSlab = 16, kAcross = columns / each_columns, kThreads = rows / each_rows * kAcross;
  // Lines of a slab lie side by side; four more keep the stores of a warp out of each other's banks.
  static constexpr int kRowPitch = rows + 4, kColumnPitch = columns + 4;
  static constexpr int kBufferBytes = (kRowPitch + kColumnPitch) * kSlab * static_cast<int>(sizeof(float));
};

/// Four floats that move together.
struct alignas(16) FourFloats {
  float at[4];
};

/// A thread's part of a slab of `kLines` lines: read from an operand, then put into shared memory. It takes fours that
/// lie side by side in memory: neighbouring k in some lines, or four lines at some k, so that it looks up few of
/// either.
template <class Tile, class Operand, int kLines, int kPitch>
class SlabPart {
 public:
  SF_HOST_DEVICE SlabPart(const Operand& operand, int thread, std::int64_t z, std::int64_t first_line,
                          std::int64_t num_lines)
      : along_inner_(operand.along_inner()), thread_(thread), lines_left_(num_lines - first_line) {
    if (along_inner_) {
      SF_UNROLL
      for (int i = 0; i < kFours; ++i) lines_[i] = operand.outer(z, first_line + line_of_four(i));
    } else {
      SF_UNROLL
      for (int j = 0; j < 4; ++j) lines_[j] = operand.outer(z, first_line + first_of_lines() + j);
    }
  }

  /// Elements from `first_k` on. Those outside of the operand are 0.
  SF_HOST_DEVICE void read(const Operand& operand, std::int64_t first_k, std::int64_t end_k) {
    if (along_inner_) {
      SF_UNROLL
      for (int j = 0; j < 4; ++j) {
        const std::int64_t k = first_k + first_k_of_fours() + j;
        const auto inner = operand.inner(k);
        SF_UNROLL
        for (int i = 0; i < kFours; ++i) {
          held_[i].at[j] = line_of_four(i) < lines_left_ && k < end_k ? operand.at(lines_[i], inner) : 0.0F;
        }
      }
    } else {
      SF_UNROLL
      for (int i = 0; i < kFours; ++i) {
        const std::int64_t k = first_k + k_of_four(i);
        const auto inner = operand.inner(k);
        SF_UNROLL
        for (int j = 0; j < 4; ++j) {
          held_[i].at[j] = first_of_lines() + j < lines_left_ && k < end_k ? operand.at(lines_[j], inner) : 0.0F;
        }
      }
    }
  }

  /// Into shared memory from byte `offset` on.
  template <class Thread>
  SF_HOST_DEVICE void put(Thread& thread, int offset) const {
    constexpr int kElements = kPitch * Tile::kSlab;
    if (along_inner_) {
      auto slab = thread.template shared<float>(offset, kElements);
      SF_UNROLL
      for (int i = 0; i < kFours; ++i) {
        SF_UNROLL
        for (int j = 0; j < 4; ++j) slab[(first_k_of_fours() + j) * kPitch + line_of_four(i)] = held_[i].at[j];
      }
    } else {
      auto slab = thread.template shared<FourFloats>(offset, kElements / 4);
      SF_UNROLL
      for (int i = 0; i < kFours; ++i) slab[(k_of_four(i) * kPitch + first_of_lines()) / 4] = held_[i];
    }
  }

 private:
  static constexpr int kFours = kLines * Tile::kSlab / Tile::kThreads / 4, kAcross = Tile::kSlab / 4;
  static constexpr int kLineFours = kLines / 4, kDown = Tile::kThreads / kLineFours;
  static_assert(kFours * Tile::kThreads * 4 == kLines * Tile::kSlab && kDown * kLineFours == Tile::kThreads);

  // Along k.
  SF_HOST_DEVICE int first_k_of_fours() const { return thread_ % kAcross * 4; }
  SF_HOST_DEVICE int line_of_four(int i) const { return thread_ / kAcross + i * (Tile::kThreads / kAcross); }
  // Along lines.
  SF_HOST_DEVICE int first_of_lines() const { return thread_ % kLineFours * 4; }
  SF_HOST_DEVICE int k_of_four(int i) const { return thread_ / kLineFours + i * kDown; }

  bool along_inner_;
  int thread_;
  std::int64_t lines_left_;  // of the operand, from the slab's first on
  typename Operand::Outer lines_[kFours > 4 ? kFours : 4] = {};
  FourFloats held_[kFours] = {};
};

/// The results of a thread: in both directions groups of four neighbours, the groups as far apart as can be.
template <class Tile>
struct ProductPart {
  static constexpr int kRowFours = Tile::kEachRows / 4, kColumnFours = Tile::kEachColumns / 4;
  float sum[Tile::kEachRows][Tile::kEachColumns] = {};

  SF_HOST_DEVICE static int row(int thread, int i) {
    return i / 4 * (Tile::kRows / kRowFours) + thread / Tile::kAcross * 4 + i % 4;
  }
  SF_HOST_DEVICE static int column(int thread, int j) {
    return j / 4 * (Tile::kColumns / kColumnFours) + thread % Tile::kAcross * 4 + j % 4;
  }

  template <class Shared>
  SF_HOST_DEVICE void add_slab(int thread, const Shared& a, const Shared& b) {
    for (int k = 0; k < Tile::kSlab; ++k) {
      float left[Tile::kEachRows], right[Tile::kEachColumns];
      SF_UNROLL
      for (int four = 0; four < kRowFours; ++four) {
        const FourFloats x = a[(k * Tile::kRowPitch + row(thread, four * 4)) / 4];
        SF_UNROLL
        for (int i = 0; i < 4; ++i) left[four * 4 + i] = x.at[i];
      }
      SF_UNROLL
      for (int four = 0; four < kColumnFours; ++four) {
        const FourFloats x = b[(k * Tile::kColumnPitch + column(thread, four * 4)) / 4];
        SF_UNROLL
        for (int j = 0; j < 4; ++j) right[four * 4 + j] = x.at[j];
      }
      SF_UNROLL
      for (int i = 0; i < Tile::kEachRows; ++i) {
        SF_UNROLL
        for (int j = 0; j < Tile::kEachColumns; ++j) sum[i][j] = std::fma(left[i], right[j], sum[i][j]);
      }
    }
  }
};

template <class Tile, class A, class B>
struct ProductBlocks {
  A a;
  B b;
  ProductResult result;
  ProductSizes sizes;
  std::int64_t splits, split_inner;  // the sums are cut into so many, each over so many elements
  float* partial;                    // [splits, batches, rows, columns], where there are several
  Divisor column_tiles, row_tiles, batches;
  std::int64_t num_tiles;

  template <class Thread>
  SF_HOST_DEVICE void operator()(Thread& thread) const {
    for (std::int64_t tile = thread.block(); tile < num_tiles; tile += thread.num_blocks()) {
      std::int64_t rest = tile;
      const std::int64_t n = column_tiles.cut(rest) * Tile::kColumns;
      const std::int64_t m = row_tiles.cut(rest) * Tile::kRows;
      const std::int64_t z = batches.cut(rest);
      ProductPart<Tile> part;
      sum_tile(thread, z, m, n, rest, part);
      for (int i = 0; i < Tile::kEachRows; ++i) {
        const std::int64_t row = m + part.row(thread.index(), i);
        for (int j = 0; j < Tile::kEachColumns; ++j) {
          const std::int64_t column = n + part.column(thread.index(), j);
          if (row < sizes.rows && column < sizes.columns) store(rest, z, row, column, part.sum[i][j]);
        }
      }
      thread.barrier();  // the next tile's slabs go where this one's are read
    }
  }

 private:
  SF_HOST_DEVICE void store(std::int64_t split, std::int64_t z, std::int64_t m, std::int64_t n, float sum) const {
    if (splits == 1) {
      result.store(z, m, n, sum);
    } else {
      partial[((split * sizes.batches + z) * sizes.rows + m) * sizes.columns + n] = sum;
    }
  }

  /// Slab by slab: while one is multiplied, the next is on its way from memory.
  template <class Thread>
  SF_HOST_DEVICE void sum_tile(Thread& thread, std::int64_t z, std::int64_t m, std::int64_t n, std::int64_t split,
                               ProductPart<Tile>& part) const {
    constexpr int kSlab = Tile::kSlab, kRowBytes = Tile::kRowPitch * kSlab * static_cast<int>(sizeof(float));
    const int index = thread.index();
    SlabPart<Tile, A, Tile::kRows, Tile::kRowPitch> from_a(a, index, z, m, sizes.rows);
    SlabPart<Tile, B, Tile::kColumns, Tile::kColumnPitch> from_b(b, index, z, n, sizes.columns);
    const std::int64_t begin = split * split_inner;
    const std::int64_t end = begin + split_inner < sizes.inner ? begin + split_inner : sizes.inner;
    int buffer = 0;
    for (std::int64_t k = begin - kSlab; k < end; k += kSlab) {
      const bool has_next = k + kSlab < end;
      if (has_next) {
        from_a.read(a, k + kSlab, end);
        from_b.read(b, k + kSlab, end);
      }
      if (k >= begin) {
        const auto of_a = thread.template shared<FourFloats>(buffer * Tile::kBufferBytes, Tile::kRowPitch * kSlab / 4);
        const auto of_b =
            thread.template shared<FourFloats>(buffer * Tile::kBufferBytes + kRowBytes, Tile::kColumnPitch * kSlab / 4);
        part.add_slab(index, of_a, of_b);
        buffer = 1 - buffer;
      }
      if (!has_next) break;
      from_a.put(thread, buffer * Tile::kBufferBytes);
      from_b.put(thread, buffer * Tile::kBufferBytes + kRowBytes);
      thread.barrier();
    }
  }
};

/// Adds the parts of sums that were cut.
struct AddSplits {
  const float* partial;
  std::int64_t splits, count;
  Divisor columns, rows;
  ProductResult result;

  SF_HOST_DEVICE void operator()(std::int64_t i) const {
    double sum = 0;
    for (std::int64_t split = 0; split < splits; ++split) sum += partial[split * count + i];
    std::int64_t rest = i;
    const std::int64_t n = columns.cut(rest), m = rows.cut(rest);
    result.store(rest, m, n, static_cast<float>(sum));
  }
};

/// A product's way over the device, made once. Sums of nothing are 0.
class Product {
  /// `visit(Tile())` with the tile that fits.
  template <class Visit>
  auto with_tile(const Visit& visit) const {
    if (sizes_.rows <= 16) return visit(ProductTile<16, 128, 4, 8>());
    if (sizes_.columns <= 16) return visit(ProductTile<128, 16, 8, 4>());
    return visit(ProductTile<64, 64, 8, 8>());
  }

 public:
  explicit Product(const ProductSizes& sizes) : sizes_(sizes) {
    const std::int64_t tiles = with_tile([&](auto tile) { return num_tiles<decltype(tile)>(); });
    if (tiles == 0) return;
    // Enough blocks for the whole device, if the sums are long enough to be worth it.
    const std::int64_t splits = std::max<std::int64_t>(1, std::min(kEnoughBlocks / tiles, sizes.inner / kShortestSum));
    split_inner_ = std::max<std::int64_t>(1, blocks_of(blocks_of(sizes.inner, splits), kSlab)) * kSlab;
    splits_ = std::max<std::int64_t>(1, blocks_of(sizes.inner, split_inner_));
  }

  std::size_t workspace_bytes() const {
    return splits_ == 1 ? 0 : static_cast<std::size_t>(splits_ * sizes_.num_results()) * sizeof(float);
  }

  template <class A, class B>
  void launch(void* queue, const A& a, const B& b, const ProductResult& result, void* workspace) const {
    auto* partial = static_cast<float*>(workspace);
    with_tile([&](auto tile) { launch_tiles<decltype(tile)>(queue, a, b, result, partial); });
    if (splits_ == 1) return;
    const std::int64_t count = sizes_.num_results();
    launch_each(queue, count,
                AddSplits{partial, splits_, count, Divisor(sizes_.columns), Divisor(sizes_.rows), result});
  }

 private:
  static constexpr std::int64_t kEnoughBlocks = 512, kShortestSum = 256, kSlab = 16;
  static std::int64_t blocks_of(std::int64_t count, std::int64_t size) { return (count + size - 1) / size; }

  /// Of one split.
  template <class Tile>
  std::int64_t num_tiles() const {
    return sizes_.batches * blocks_of(sizes_.rows, Tile::kRows) * blocks_of(sizes_.columns, Tile::kColumns);
  }

  template <class Tile, class A, class B>
  void launch_tiles(void* queue, const A& a, const B& b, const ProductResult& result, float* partial) const {
    static_assert(Tile::kSlab == kSlab);
    const std::int64_t column_tiles = blocks_of(sizes_.columns, Tile::kColumns);
    const std::int64_t row_tiles = blocks_of(sizes_.rows, Tile::kRows);
    const std::int64_t tiles = num_tiles<Tile>() * splits_;
    constexpr std::int64_t kMostBlocks = std::int64_t{1} << 20;
    launch_blocks(queue,
                  {.blocks = std::min(tiles, kMostBlocks),
                   .threads = Tile::kThreads,
                   .shared_bytes = static_cast<std::size_t>(2 * Tile::kBufferBytes)},
                  ProductBlocks<Tile, A, B>{a, b, result, sizes_, splits_, split_inner_, partial, Divisor(column_tiles),
                                            Divisor(row_tiles), Divisor(sizes_.batches), tiles});
  }

  ProductSizes sizes_;
  std::int64_t splits_ = 1, split_inner_ = 0;
};

}  // namespace sectionflow::gpu
