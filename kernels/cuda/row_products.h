#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "kernels/cuda/elements.h"
#include "kernels/cuda/launch.h"

/// Products of tiles of rows, for blocks of kThreads threads that stand in a square of kSide x kSide: of a tile of
/// products, thread (y, x) has the rows 4 y to 4 y + 3 in the columns x, x + 16, x + 32 and x + 48, and of a tile of
/// sums the same rows in the columns 4 x to 4 x + 3 of each 64. Both factors pass through shared memory.
namespace sectionflow::gpu::row_products {

/// Four neighbours that a thread moves at once.
using Four = Pack<float, 4>;

inline constexpr int kTile = 64, kSide = 16, kThreads = 256;
inline constexpr int kDepth = 32;  // columns of both factors in shared memory at a time
// Shared memory, in rows of a length, in fours, that is odd: neighbouring rows lie in other banks.
inline constexpr int kChunkStride = kDepth / 4 + 1, kWeightStride = kTile / 4 + 1;
inline constexpr std::size_t kLeftAt = 0, kRightAt = kTile * kChunkStride * sizeof(Four), kWeightsAt = 2 * kRightAt;
inline constexpr std::size_t kSharedBytes = kWeightsAt + kTile * kWeightStride * sizeof(Four);
inline constexpr int kFactorFours = 1024;  // of sums, where the chunks of products were
static_assert(kFactorFours * sizeof(Four) <= kWeightsAt && kSharedBytes <= 48 * 1024);

/// `count` <= kTile rows of `width` elements, f32 or bf16, one behind the other from `data` on.
template <class T>
struct TileRows {
  const T* data;
  std::int64_t count;
};

/// Elements [column, column + 4) of a row, 0 beyond its end and beyond the last row.
template <class T>
SF_HOST_DEVICE Four four_of(const TileRows<T>& rows, std::int64_t width, std::int64_t row, std::int64_t column) {
  Four four{};
  if (row >= rows.count) return four;
  const T* from = rows.data + row * width + column;
  if (width % 4 == 0) {  // each row begins at a multiple of four elements
    const auto pack = load_pack<4>(from);
    for (int i = 0; i < 4; ++i) four.values[i] = pack.values[i];
    return four;
  }
  for (int i = 0; i < 4 && column + i < width; ++i) four.values[i] = from[i];
  return four;
}

template <class Thread>
SF_HOST_DEVICE int row_of(Thread& thread) {
  return 4 * (thread.index() / kSide);
}
template <class Thread>
SF_HOST_DEVICE int column_of(Thread& thread) {
  return thread.index() % kSide;
}

/// Puts the columns [first, first + 4 * fours) of the rows into shared memory.
template <class Thread, class T>
SF_HOST_DEVICE void load_chunk(Thread& thread, const TileRows<T>& rows, std::int64_t width, std::int64_t first,
                               int fours, std::size_t offset) {
  auto chunk = thread.template shared<Four>(offset, kTile * kChunkStride);
  for (int i = thread.index(); i < kTile * (kDepth / 4); i += kThreads) {
    const int row = i / (kDepth / 4), four = i % (kDepth / 4);
    if (four < fours) chunk[row * kChunkStride + four] = four_of(rows, width, row, first + 4 * four);
  }
}

/// products[i][j] = the product of row row_of + i of `left` and row column_of + 16 j of `right`; of rows beyond the
/// last, 0.
template <class Thread, class T>
SF_HOST_DEVICE void multiply_rows(Thread& thread, const TileRows<T>& left, const TileRows<T>& right, std::int64_t width,
                                  float (&products)[4][4]) {
  const int row = row_of(thread), column = column_of(thread);
  for (auto& of_row : products)
    for (float& product : of_row) product = 0;
  for (std::int64_t first = 0; first < width; first += kDepth) {
    const int fours = width - first < kDepth ? static_cast<int>(width - first + 3) / 4 : kDepth / 4;
    thread.barrier();  // what was here is read no more
    load_chunk(thread, left, width, first, fours, kLeftAt);
    load_chunk(thread, right, width, first, fours, kRightAt);
    thread.barrier();
    if (row >= left.count || column >= right.count) continue;
    auto lefts = thread.template shared<Four>(kLeftAt, kTile * kChunkStride);
    auto rights = thread.template shared<Four>(kRightAt, kTile * kChunkStride);
    for (int four = 0; four < fours; ++four) {
      Four a[4], b[4];
      for (int i = 0; i < 4; ++i) a[i] = lefts[(row + i) * kChunkStride + four];
      for (int j = 0; j < 4; ++j) b[j] = rights[(column + kSide * j) * kChunkStride + four];
      for (int c = 0; c < 4; ++c)
        for (int i = 0; i < 4; ++i)
          for (int j = 0; j < 4; ++j) products[i][j] = std::fma(a[i].values[c], b[j].values[c], products[i][j]);
    }
  }
}

/// Puts a tile of products into shared memory, as the weights of add_weighted_rows.
template <class Thread>
SF_HOST_DEVICE void store_weights(Thread& thread, const float (&products)[4][4]) {
  auto weights = thread.template shared<float>(kWeightsAt, kTile * kWeightStride * 4);
  thread.barrier();  // those of before are read no more
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j)
      weights[(row_of(thread) + i) * kWeightStride * 4 + column_of(thread) + kSide * j] = products[i][j];
}

/// sums[i][h] += the sum over k of weight [row_of + i, k] times the columns [4 column_of, + 4) of row k, counted from
/// first_column + 64 h on. kColumns: 64 or 128 columns.
template <int kColumns, class Thread, class T>
SF_HOST_DEVICE void add_weighted_rows(Thread& thread, const TileRows<T>& rows, std::int64_t width,
                                      std::int64_t first_column, Four (&sums)[4][kColumns / 64]) {
  constexpr int kFours = kColumns / 4, kRows = kFactorFours / kFours;  // of a row; at a time
  auto factors = thread.template shared<Four>(0, kFactorFours);
  auto weights = thread.template shared<Four>(kWeightsAt, kTile * kWeightStride);
  const int row = row_of(thread), column = column_of(thread);
  for (int first = 0; first < rows.count; first += kRows) {
    const int rest = (static_cast<int>(rows.count) - first + 3) / 4 * 4, end = rest < kRows ? rest : kRows;
    thread.barrier();  // the weights are there, and what was here is read no more
    for (int i = thread.index(); i < end * kFours; i += kThreads) {
      const std::int64_t of_row = first_column + 4 * (i % kFours);
      if (of_row < width) factors[i] = four_of(rows, width, first + i / kFours, of_row);
    }
    thread.barrier();
    for (int k = 0; k < end; k += 4) {
      if (first_column + 4 * column >= width) break;
      Four weight[4];
      for (int i = 0; i < 4; ++i) weight[i] = weights[(row + i) * kWeightStride + (first + k) / 4];
      for (int h = 0; h < kColumns / 64; ++h) {
        if (first_column + 64 * h + 4 * column >= width) break;
        for (int next = 0; next < 4; ++next) {
          const Four factor = factors[(k + next) * kFours + kSide * h + column];
          for (int i = 0; i < 4; ++i)
            for (int c = 0; c < 4; ++c)
              sums[i][h].values[c] = std::fma(weight[i].values[next], factor.values[c], sums[i][h].values[c]);
        }
      }
    }
  }
}

/// Writes the sums, times factors[i], to their places in `count` rows from `to` on.
template <int kColumns, class Thread, class T>
SF_HOST_DEVICE void write_sums(Thread& thread, const Four (&sums)[4][kColumns / 64], const float (&factors)[4], T* to,
                               std::int64_t count, std::int64_t width, std::int64_t first_column) {
  for (int i = 0; i < 4 && row_of(thread) + i < count; ++i) {
    for (int h = 0; h < kColumns / 64; ++h) {
      const std::int64_t column = first_column + 64 * h + 4 * column_of(thread);
      T* at = to + (row_of(thread) + i) * width + column;
      if (width % 4 == 0 && column < width) {
        Pack<T, 4> four;
        for (int c = 0; c < 4; ++c) four.values[c] = static_cast<T>(sums[i][h].values[c] * factors[i]);
        store_pack(at, four);
        continue;
      }
      for (int c = 0; c < 4 && column + c < width; ++c) at[c] = static_cast<T>(sums[i][h].values[c] * factors[i]);
    }
  }
}

/// Gives the kSide threads of each row `combine` over their values[i], in the same order always.
template <class T, class Thread, class Combine>
SF_HOST_DEVICE void combine_rows(Thread& thread, T (&values)[4], const Combine& combine) {
  for (int mask = 1; mask < kSide; mask *= 2) {
    const bool lower = (thread.index() & mask) == 0;
    for (T& value : values) {
      const T other = thread.template shuffle_xor<T>(value, mask);
      value = lower ? combine(value, other) : combine(other, value);
    }
  }
}

}  // namespace sectionflow::gpu::row_products
