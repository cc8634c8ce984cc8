#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/shape.h"
#include "device/parallel.h"

namespace sectionflow {

/// Loops over a tensor seen as [rows, C] in which each channel has its own numbers, and sums over its rows.
///
/// Rows are cut into blocks by shape alone. A block is summed by one thread, in f32; the sums of the blocks are added
/// in their order, in double. So the bits do not depend on the thread count. Few channels would make short loops: then
/// `rows_together` neighbouring rows form one strip of lanes, each with its own sum, added when the block ends.
class Columns {
 public:
  static constexpr std::int64_t kMaxLanes = 256;         ///< of one strip
  static constexpr std::int64_t kWideEnough = 64;        ///< channels that fill a strip alone
  static constexpr std::int64_t kBlockElements = 16384;  ///< 64 KiB: a second pass over a block finds it in cache

  /// `shape`: [..., C], of rank >= 1.
  explicit Columns(const Shape& shape)
      : channels_(shape[-1]), rows_(channels_ == 0 ? 0 : shape.num_elements() / channels_) {
    if (channels_ > 0 && channels_ < kWideEnough) rows_together_ = kWideEnough / channels_;
    const std::int64_t strip = rows_together_ * std::max<std::int64_t>(1, channels_);
    block_rows_ = std::max<std::int64_t>(1, kBlockElements / strip) * rows_together_;
  }

  std::int64_t rows() const { return rows_; }
  std::int64_t channels() const { return channels_; }
  std::int64_t rows_together() const { return rows_together_; }
  std::int64_t num_blocks() const { return (rows_ + block_rows_ - 1) / block_rows_; }
  std::int64_t block_begin(std::int64_t block) const { return block * block_rows_; }
  std::int64_t block_end(std::int64_t block) const { return std::min(rows_, (block + 1) * block_rows_); }
  /// Bytes of one f32 a channel and block.
  std::size_t partial_bytes() const { return static_cast<std::size_t>(num_blocks() * channels_) * sizeof(float); }

  /// Calls `body(first_element, first_lane, num_lanes)` for every strip of a block. Lane l belongs to channel l % C.
  template <class Body>
  void for_each_strip(std::int64_t block, const Body& body) const {
    for (std::int64_t lane = 0; lane < channels_; lane += kMaxLanes) for_each_strip(block, lane, body);
  }

  /// sums[k][c] = the sum over the block's rows of the k-th term(element, lane), a float.
  template <class... Terms>
  void sum_block(std::int64_t block, const std::array<float*, sizeof...(Terms)>& sums, const Terms&... terms) const {
    for (std::int64_t first = 0; first < channels_; first += kMaxLanes) {
      const std::int64_t width = std::min(kMaxLanes, channels_ - first);
      float lanes[sizeof...(Terms)][kMaxLanes] = {};
      for_each_strip(block, first, [&](std::int64_t element, std::int64_t, std::int64_t num_lanes) {
        [&]<std::size_t... k>(std::index_sequence<k...>) {
#pragma omp simd
          for (std::int64_t i = 0; i < num_lanes; ++i) ((lanes[k][i] += terms(element + i, first + i)), ...);
        }
        (std::index_sequence_for<Terms...>());
      });
      for (std::size_t k = 0; k < sums.size(); ++k) {
        for (std::int64_t c = 0; c < width; ++c) {
          float sum = lanes[k][c];
          for (std::int64_t row = 1; row < rows_together_; ++row) sum += lanes[k][row * channels_ + c];
          sums[k][first + c] = sum;
        }
      }
    }
  }

  /// Calls `body(block)` for every block, on the compute team.
  template <class Body>
  void for_each_block(const Body& body) const {
    parallel_for(num_blocks(), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t block = begin; block < end; ++block) body(block);
    });
  }

  /// Calls `body(c, sum)` for each channel, where `sum` is the double sum over blocks of term(block, c). `body` may run
  /// on any thread of the team.
  template <class Term, class Body>
  void combine_blocks(const Term& term, const Body& body) const {
    parallel_for(channels_, 64, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t c = begin; c < end; ++c) {
        double sum = 0;
        for (std::int64_t block = 0; block < num_blocks(); ++block) sum += term(block, c);
        body(c, sum);
      }
    });
  }

 private:
  /// The strips of the channels from `first` on.
  template <class Body>
  void for_each_strip(std::int64_t block, std::int64_t first, const Body& body) const {
    const std::int64_t end = block_end(block);
    const std::int64_t width = std::min(kMaxLanes, channels_ - first);
    for (std::int64_t row = block_begin(block); row < end; row += rows_together_) {
      body(row * channels_ + first, first, width * std::min(rows_together_, end - row));
    }
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
