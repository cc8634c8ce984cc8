#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "base/shape.h"
#include "device/parallel.h"
#include "kernels/cpu/wide_vectors.h"

namespace sectionflow {

/// Calls `body(c, sum)` for each channel, where `sum` is the double sum of term(block, c) over the blocks in their
/// order. `body` may run on any thread of the team.
template <class Term, class Body>
void combine_blocks(std::int64_t num_blocks, std::int64_t channels, const Term& term, const Body& body) {
  // Channels side by side: the terms of a block are neighbours in memory.
  constexpr std::int64_t kTogether = 64;
  parallel_for(channels, kTogether, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t first = begin; first < end; first += kTogether) {
      const std::int64_t width = std::min(kTogether, end - first);
      double sums[kTogether] = {};
      for (std::int64_t block = 0; block < num_blocks; ++block) {
#pragma omp simd
        for (std::int64_t c = 0; c < width; ++c) sums[c] += term(block, first + c);
      }
      for (std::int64_t c = 0; c < width; ++c) body(first + c, sums[c]);
    }
  });
}

/// One number a channel of a `Columns`, readable by lane; see below.
class LaneValues;

/// Loops over a tensor seen as [rows, C] in which each channel has its own numbers, and sums over its rows. `Planes`
/// has the same functions for [N, C, S]; kernels are written for either.
///
/// Rows are cut into blocks by shape alone, blocks of many channels into tiles of kMaxLanes. A tile is summed by one
/// thread, in f32; the sums of the blocks are added in their order, in double. So the bits do not depend on the thread
/// count. Few channels would make short loops: then `rows_together` neighbouring rows form one strip of lanes, each
/// with its own sum, added when the block ends. Lane l belongs to channel l % C.
class Columns {
 public:
  using Values = LaneValues;

  static constexpr std::int64_t kMaxLanes = 256;        ///< of a tile
  static constexpr std::int64_t kWideEnough = 64;       ///< channels that fill a strip alone
  static constexpr std::int64_t kTileElements = 16384;  ///< 64 KiB: a second pass over a tile finds it in cache

  /// The channels [first, first + width) of a block of rows.
  struct Tile {
    std::int64_t block, first, width;
  };

  /// `shape`: [..., C], of rank >= 1.
  explicit Columns(const Shape& shape)
      : channels_(shape[-1]), rows_(channels_ == 0 ? 0 : shape.num_elements() / channels_) {
    if (channels_ > 0 && channels_ < kWideEnough) rows_together_ = kWideEnough / channels_;
    const std::int64_t lanes = std::clamp<std::int64_t>(rows_together_ * channels_, 1, kMaxLanes);
    block_rows_ = kTileElements / lanes * rows_together_;
  }

  std::int64_t channels() const { return channels_; }
  std::int64_t rows_together() const { return rows_together_; }
  /// Elements of a channel, in all and in a block.
  std::int64_t count() const { return rows_; }
  std::int64_t count_of(std::int64_t block) const { return block_end(block) - block * block_rows_; }
  std::int64_t num_blocks() const { return (rows_ + block_rows_ - 1) / block_rows_; }
  /// Bytes of one f32 a channel and block.
  std::size_t partial_bytes() const { return static_cast<std::size_t>(num_blocks() * channels_) * sizeof(float); }

  /// Calls `body(tile)` for every tile, on the compute team, in wide vectors.
  template <class Body>
  void for_each_tile(const Body& body) const {
    const std::int64_t per_block = (channels_ + kMaxLanes - 1) / kMaxLanes;
    parallel_for(num_blocks() * per_block, 1, [&](std::int64_t begin, std::int64_t end) {
      in_wide_vectors([&] {
        for (std::int64_t number = begin; number < end; ++number) {
          const std::int64_t first = number % per_block * kMaxLanes;
          body(Tile{number / per_block, first, std::min(kMaxLanes, channels_ - first)});
        }
      });
    });
  }

  /// sums[k][c], for each channel of the tile, = the sum over the block's rows of the k-th term(element, lane), a
  /// float.
  template <class... Terms>
  void sum(const Tile& tile, const std::array<float*, sizeof...(Terms)>& sums, const Terms&... terms) const {
    float lanes[sizeof...(Terms)][kMaxLanes] = {};
    const std::int64_t end = block_end(tile.block), whole_strip = tile.width * rows_together_;
    std::int64_t row = tile.block * block_rows_;
    // Four strips at a time spare loads and stores of the sums; the order within a lane stays that of the rows.
    for (; row + 4 * rows_together_ <= end; row += 4 * rows_together_) {
      add_strips<4>(row * channels_ + tile.first, tile.first, whole_strip, lanes, terms...);
    }
    for (; row < end; row += rows_together_) {
      const std::int64_t num_lanes = tile.width * std::min(rows_together_, end - row);
      add_strips<1>(row * channels_ + tile.first, tile.first, num_lanes, lanes, terms...);
    }
    for (std::size_t k = 0; k < sums.size(); ++k) {
      for (std::int64_t c = 0; c < tile.width; ++c) {
        float sum = lanes[k][c];
        for (std::int64_t r = 1; r < rows_together_; ++r) sum += lanes[k][r * channels_ + c];
        sums[k][tile.first + c] = sum;
      }
    }
  }

  /// Calls `body(step, element, lane, count)` for runs of `count` neighbouring elements that cover all, on the compute
  /// team: the i-th has the lane `lane + i * step`, where `step` is a constant.
  template <class Body>
  void for_each_run(const Body& body) const {
    const std::int64_t strips_at_a_time =
        std::max<std::int64_t>(1, kTileElements / std::max<std::int64_t>(1, rows_together_ * channels_));
    parallel_for(channels_ == 0 ? 0 : rows_, strips_at_a_time * rows_together_,
                 [&](std::int64_t begin, std::int64_t end) {
                   in_wide_vectors([&] {
                     for (std::int64_t row = begin; row < end; row += rows_together_) {
                       body(std::integral_constant<std::int64_t, 1>(), row * channels_, std::int64_t{0},
                            channels_ * std::min(rows_together_, end - row));
                     }
                   });
                 });
  }

  /// Calls `body(c, sum)` for each channel, where `sum` is the double sum over blocks of term(block, c).
  template <class Term, class Body>
  void combine(const Term& term, const Body& body) const {
    combine_blocks(num_blocks(), channels_, term, body);
  }

 private:
  std::int64_t block_end(std::int64_t block) const { return std::min(rows_, (block + 1) * block_rows_); }

  /// Adds `num_strips` strips, the first of which begins at `element`, to the sums of their lanes.
  template <int num_strips, std::size_t num_terms, class... Terms>
  void add_strips(std::int64_t element, std::int64_t lane, std::int64_t num_lanes, float (&lanes)[num_terms][kMaxLanes],
                  const Terms&... terms) const {
    const std::int64_t strip = rows_together_ * channels_;
    const auto add_term = [=](float sum, const auto& term, std::int64_t i) {
      for (int s = 0; s < num_strips; ++s) sum += term(element + s * strip + i, lane + i);
      return sum;
    };
    [&]<std::size_t... k>(std::index_sequence<k...>) {
#pragma omp simd
      for (std::int64_t i = 0; i < num_lanes; ++i) ((lanes[k][i] = add_term(lanes[k][i], terms, i)), ...);
    }
    (std::make_index_sequence<num_terms>());
  }

  std::int64_t channels_, rows_;
  std::int64_t rows_together_ = 1;
  std::int64_t block_rows_ = 1;
};

/// One number a channel, readable by lane: repeated for the rows of a strip where several lie together.
class LaneValues {
 public:
  LaneValues(const Columns& columns, const float* per_channel) : values_(per_channel) {
    if (columns.rows_together() == 1) return;
    const std::int64_t num_lanes = columns.rows_together() * columns.channels();
    for (std::int64_t lane = 0; lane < num_lanes; ++lane) repeated_[lane] = per_channel[lane % columns.channels()];
    values_ = repeated_.data();
  }
  LaneValues(const LaneValues&) = delete;
  LaneValues& operator=(const LaneValues&) = delete;

  const float* data() const { return values_; }

 private:
  const float* values_;
  std::array<float, Columns::kWideEnough> repeated_;
};

}  // namespace sectionflow
