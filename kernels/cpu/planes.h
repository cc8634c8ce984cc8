#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "base/shape.h"
#include "device/parallel.h"
#include "graph/ops/data_format.h"
#include "kernels/cpu/columns.h"
#include "kernels/cpu/wide_vectors.h"

namespace sectionflow {

/// What `Columns` is, for a tensor seen as [N, C, S]: a channel has one plane of S neighbouring elements an image.
///
/// A block is one piece of a large plane, or a few images of small planes; its tiles are some neighbouring channels.
/// Both are cut by shape alone. A tile sums each channel in kLanes lanes in f32; blocks are added in order, in double.
/// A lane of `Columns` is here the channel.
class Planes {
 public:
  static constexpr std::int64_t kLanes = 32;
  static constexpr std::int64_t kTileElements = 16384;  ///< 64 KiB: a second pass over a tile finds it in cache
  static constexpr std::int64_t kEnoughForASum = 256;   ///< elements of a channel that a block should have

  /// The channels [first, first + width) of a block.
  struct Tile {
    std::int64_t block, first, width;
  };

  /// One number a channel.
  class Values {
   public:
    Values(const Planes&, const float* per_channel) : values_(per_channel) {}
    const float* data() const { return values_; }

   private:
    const float* values_;
  };

  /// `shape`: [N, C, ...].
  explicit Planes(const Shape& shape) : images_(shape[0]), channels_(shape[1]) {
    for (int axis = 2; axis < shape.rank(); ++axis) plane_ *= shape[axis];
    if (channels_ * plane_ == 0) images_ = 0;
    piece_ = std::clamp<std::int64_t>(plane_, 1, kTileElements);
    pieces_ = (plane_ + piece_ - 1) / piece_;
    if (pieces_ == 1) block_images_ = std::max<std::int64_t>(1, kEnoughForASum / piece_);
    tile_channels_ = std::max<std::int64_t>(1, kTileElements / (block_images_ * piece_));
  }

  std::int64_t channels() const { return channels_; }
  /// Elements of a channel, in all and in a block.
  std::int64_t count() const { return images_ * plane_; }
  std::int64_t count_of(std::int64_t block) const {
    const Part part = part_of(block);
    return (part.last_image - part.first_image) * (part.end - part.begin);
  }
  std::int64_t num_blocks() const { return (images_ + block_images_ - 1) / block_images_ * pieces_; }
  /// Bytes of one f32 a channel and block.
  std::size_t partial_bytes() const { return static_cast<std::size_t>(num_blocks() * channels_) * sizeof(float); }

  /// Calls `body(tile)` for every tile, on the compute team, in wide vectors.
  template <class Body>
  void for_each_tile(const Body& body) const {
    const std::int64_t per_block = (channels_ + tile_channels_ - 1) / tile_channels_;
    parallel_for(num_blocks() * per_block, 1, [&](std::int64_t begin, std::int64_t end) {
      in_wide_vectors([&] {
        for (std::int64_t number = begin; number < end; ++number) {
          const std::int64_t first = number % per_block * tile_channels_;
          body(Tile{number / per_block, first, std::min(tile_channels_, channels_ - first)});
        }
      });
    });
  }

  /// sums[k][c], for each channel of the tile, = the sum over the block of the k-th term(element, c), a float.
  template <class... Terms>
  void sum(const Tile& tile, const std::array<float*, sizeof...(Terms)>& sums, const Terms&... terms) const {
    const Part part = part_of(tile.block);
    for (std::int64_t c = tile.first; c < tile.first + tile.width; ++c) {
      float lanes[sizeof...(Terms)][kLanes] = {};
      for (std::int64_t image = part.first_image; image < part.last_image; ++image) {
        const std::int64_t plane = (image * channels_ + c) * plane_;
        add_run(plane + part.begin, plane + part.end, c, lanes, terms...);
      }
      for (std::size_t k = 0; k < sums.size(); ++k) {
        for (std::int64_t width = kLanes / 2; width > 0; width /= 2) {
#pragma omp simd
          for (std::int64_t lane = 0; lane < width; ++lane) lanes[k][lane] += lanes[k][lane + width];
        }
        sums[k][c] = lanes[k][0];
      }
    }
  }

  /// Calls `body(step, element, c, count)` for runs of `count` neighbouring elements of channel c that cover all, on
  /// the compute team; `step` is the constant 0.
  template <class Body>
  void for_each_run(const Body& body) const {
    const std::int64_t grain = std::max<std::int64_t>(1, kTileElements / piece_);
    parallel_for(images_ * channels_ * pieces_, grain, [&](std::int64_t begin, std::int64_t end) {
      in_wide_vectors([&] {
        for (std::int64_t number = begin; number < end; ++number) {
          const std::int64_t plane = number / pieces_, first = number % pieces_ * piece_;
          body(std::integral_constant<std::int64_t, 0>(), plane * plane_ + first, plane % channels_,
               std::min(piece_, plane_ - first));
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
  struct Part {
    std::int64_t first_image, last_image;  // last exclusive
    std::int64_t begin, end;               // within each plane
  };
  Part part_of(std::int64_t block) const {
    const std::int64_t image = block / pieces_ * block_images_, begin = block % pieces_ * piece_;
    return {image, std::min(images_, image + block_images_), begin, std::min(plane_, begin + piece_)};
  }

  template <std::size_t num_terms, class... Terms>
  static void add_run(std::int64_t element, std::int64_t end, std::int64_t c, float (&lanes)[num_terms][kLanes],
                      const Terms&... terms) {
    const auto add = [&](std::int64_t num_lanes) {
      [&]<std::size_t... k>(std::index_sequence<k...>) {
#pragma omp simd
        for (std::int64_t lane = 0; lane < num_lanes; ++lane) ((lanes[k][lane] += terms(element + lane, c)), ...);
      }
      (std::make_index_sequence<num_terms>());
    };
    for (; element + kLanes <= end; element += kLanes) add(kLanes);
    add(end - element);
  }

  std::int64_t images_, channels_, plane_ = 1;
  std::int64_t piece_ = 1, pieces_ = 1;
  std::int64_t block_images_ = 1;
  std::int64_t tile_channels_ = 1;
};

/// What `make` gives for the loops that fit a tensor of that shape and format: `Columns` or `Planes`.
template <class Make>
auto with_channel_loops(const Shape& shape, DataFormat format, const Make& make) {
  std::int64_t plane = 1;
  for (int axis = 2; axis < shape.rank(); ++axis) plane *= shape[axis];
  if (format == DataFormat::nhwc) return make(Columns(shape));
  // Planes of one element stand as the channels of [N, C].
  return plane == 1 ? make(Columns({shape[0], shape[1]})) : make(Planes(shape));
}

}  // namespace sectionflow
