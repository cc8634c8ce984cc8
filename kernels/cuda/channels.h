#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/shape.h"
#include "graph/ops/data_format.h"
#include "kernels/cuda/block_reduce.h"
#include "kernels/cuda/elements.h"
#include "kernels/cuda/launch.h"

namespace sectionflow::gpu {

/// A tensor seen as [N, C, S]: a channel has S neighbouring elements an image; S is 1 where channels come last.
struct Channels {
  Channels(const Shape& shape, DataFormat format) : channels(shape[channel_axis(format)]) {
    const int rank = shape.rank();
    const int channel = format == DataFormat::nhwc ? rank - 1 : 1;
    for (int axis = 0; axis < channel; ++axis) images *= shape[axis];
    for (int axis = channel + 1; axis < rank; ++axis) plane *= shape[axis];
  }

  /// Elements of a channel, and of all.
  SF_HOST_DEVICE std::int64_t count() const { return images * plane; }
  SF_HOST_DEVICE std::int64_t num_elements() const { return count() * channels; }

  std::int64_t images = 1, channels, plane = 1;
};

/// Walks over neighbouring elements with their channels: one division for all.
class ChannelWalk {
 public:
  SF_HOST_DEVICE ChannelWalk(const Channels& of, std::int64_t element) : of_(of) {
    if (of.num_elements() <= 0xFFFFFFFFLL) {  // divisions of 64 bits take several times as long
      const auto at = static_cast<std::uint32_t>(element), plane = static_cast<std::uint32_t>(of.plane);
      const std::uint32_t number = at / plane;
      in_plane_ = at - number * plane;
      channel_ = number % static_cast<std::uint32_t>(of.channels);
    } else {
      in_plane_ = element % of.plane;
      channel_ = element / of.plane % of.channels;
    }
  }
  SF_HOST_DEVICE std::int64_t channel() const { return channel_; }
  SF_HOST_DEVICE void next() {
    if (++in_plane_ < of_.plane) return;
    in_plane_ = 0;
    if (++channel_ == of_.channels) channel_ = 0;
  }

 private:
  const Channels& of_;
  std::int64_t channel_, in_plane_;
};

/// y[i] = function(channel of i, {inputs[k][i]...}), a function of floats, for elements stored as T, a pack a thread; y
/// may lie over any of the inputs. For launch_map_channels.
template <class T, int kInputs, class Function>
struct MapChannels {
  static constexpr int kWidth = pack_width<T>();
  Channels of;
  const T* inputs[kInputs];
  T* y;
  Function function;

  SF_HOST_DEVICE void operator()(std::int64_t group) const {
    const std::int64_t first = kWidth * group, count = of.num_elements();
    ChannelWalk walk(of, first);
    float values[kInputs];
    if (first + kWidth > count) {
      for (std::int64_t i = first; i < count; ++i, walk.next()) {
        for (int k = 0; k < kInputs; ++k) values[k] = inputs[k][i];
        y[i] = static_cast<T>(function(walk.channel(), values));
      }
      return;
    }
    Pack<T, kWidth> packs[kInputs], result;
    for (int k = 0; k < kInputs; ++k) packs[k] = load_pack<kWidth>(inputs[k] + first);
    for (int i = 0; i < kWidth; ++i, walk.next()) {
      for (int k = 0; k < kInputs; ++k) values[k] = packs[k].values[i];
      result.values[i] = static_cast<T>(function(walk.channel(), values));
    }
    store_pack(y + first, result);
  }
};
template <class T, int kInputs, class Function>
void launch_map_channels(void* queue, const MapChannels<T, kInputs, Function>& body) {
  launch_each(queue, blocks_for(body.of.num_elements(), body.kWidth), body);
}

/// How sums over the elements of each channel are cut, by shape alone. A block sums a piece of some channels: of
/// neighbouring ones where channels come last, so that neighbouring threads read neighbouring elements, else of one.
struct ChannelCut {
  static constexpr int kThreads = 256;
  static constexpr std::int64_t kWidth = 32;           // channels that fill a warp
  static constexpr std::int64_t kEnoughBlocks = 1056;  // eight for each of 132 multiprocessors
  static constexpr std::int64_t kEnoughTerms = 8;      // of a thread

  explicit ChannelCut(const Channels& of) : of(of) {
    const std::int64_t neighbours = of.plane == 1 ? std::clamp<std::int64_t>(of.channels, 1, kWidth) : 1;
    width = static_cast<int>(neighbours);
    rows = kThreads / width;
    tiles = (of.channels + width - 1) / width;
    const std::int64_t most = std::max<std::int64_t>(1, kEnoughBlocks / std::max<std::int64_t>(1, tiles));
    const std::int64_t terms = std::max(kEnoughTerms, (of.count() + rows * most - 1) / (rows * most));
    piece = terms * rows;
    pieces = std::max<std::int64_t>(1, (of.count() + piece - 1) / piece);
  }
  /// Bytes of `num_sums` partial sums a channel and piece.
  std::size_t partial_bytes(int num_sums) const {
    return static_cast<std::size_t>(num_sums * of.channels * pieces) * sizeof(double);
  }

  Channels of;
  int width, rows;             // channels of a block; threads that share one
  std::int64_t tiles, pieces;  // blocks side by side; along a channel
  std::int64_t piece;          // elements of a channel in a block
};

/// The sums of a block: partials[k, c, piece]. `term.of_channel(c)` gives a function (element, number within the
/// channel, sums) that adds an element's terms to the double sums[kSums].
template <int kSums, class Term>
struct PartialChannelSums {
  ChannelCut cut;
  Term term;
  double* partials;

  template <class Thread>
  SF_HOST_DEVICE void operator()(Thread& thread) const {
    const std::int64_t tile = thread.block() / cut.pieces, piece = thread.block() % cut.pieces;
    const int row = thread.index() / cut.width;
    const std::int64_t channel = tile * cut.width + thread.index() % cut.width;
    const bool has_channel = row < cut.rows && channel < cut.of.channels;
    double sums[kSums] = {};
    if (has_channel) add_piece(channel, piece * cut.piece, row, sums);
    add_rows(thread, row, sums);
    if (row != 0 || !has_channel) return;
    for (int k = 0; k < kSums; ++k) partials[(k * cut.of.channels + channel) * cut.pieces + piece] = sums[k];
  }

  SF_HOST_DEVICE void add_piece(std::int64_t channel, std::int64_t begin, int row, double (&sums)[kSums]) const {
    const std::int64_t count = cut.of.count(), plane = cut.of.plane;
    if (count == 0) return;
    const std::int64_t end = begin + cut.piece < count ? begin + cut.piece : count;
    const std::int64_t step_images = cut.rows / plane, step = cut.rows % plane;
    const auto add = term.of_channel(channel);
    std::int64_t number = begin + row, image = number / plane, in_plane = number % plane;
    const auto next = [&] {
      const std::int64_t element = (image * cut.of.channels + channel) * plane + in_plane;
      image += step_images;
      in_plane += step;
      if (in_plane >= plane) {
        in_plane -= plane;
        ++image;
      }
      return element;
    };
    constexpr int kAtATime = 4;  // without a branch between them, so that their loads are on the way together
    for (; number + (kAtATime - 1) * cut.rows < end; number += kAtATime * cut.rows) {
      for (int ahead = 0; ahead < kAtATime; ++ahead) add(next(), number + ahead * cut.rows, sums);
    }
    for (; number < end; number += cut.rows) add(next(), number, sums);
  }

  /// Gives row 0 the sums of all rows.
  template <class Thread>
  SF_HOST_DEVICE void add_rows(Thread& thread, int row, double (&sums)[kSums]) const {
    auto shared = thread.template shared<double>(0, kSums * ChannelCut::kThreads);
    for (int k = 0; k < kSums; ++k) shared[k * ChannelCut::kThreads + thread.index()] = sums[k];
    for (int rows = cut.rows; rows > 1;) {
      thread.barrier();
      const int half = (rows + 1) / 2;  // row r takes row r + half
      if (row + half < rows) {
        for (int k = 0; k < kSums; ++k) {
          const int at = k * ChannelCut::kThreads + thread.index();
          const double other = shared[at + half * cut.width];
          sums[k] += other;
          shared[at] = sums[k];
        }
      }
      rows = half;
    }
  }
};

/// finish(c, sums) for each channel, with its sums over the pieces; a thread a channel.
template <int kSums, class Finish>
struct CombineFewChannelSums {
  static constexpr std::int64_t kMost = 16;  // pieces

  std::int64_t channels, pieces;
  const double* partials;
  Finish finish;

  SF_HOST_DEVICE void operator()(std::int64_t channel) const {
    double sums[kSums] = {};
    for (int k = 0; k < kSums; ++k) {
      const double* of_pieces = partials + (k * channels + channel) * pieces;
      for (std::int64_t piece = 0; piece < pieces; ++piece) sums[k] += of_pieces[piece];
    }
    finish(channel, sums);
  }
};

/// The same with a warp a channel.
template <int kSums, class Finish>
struct CombineChannelSums {
  std::int64_t channels, pieces;
  const double* partials;
  Finish finish;

  template <class Thread>
  SF_HOST_DEVICE void operator()(Thread& thread) const {
    const std::int64_t channel = thread.block();
    double sums[kSums] = {};
    for (int k = 0; k < kSums; ++k) {
      const double* of_pieces = partials + (k * channels + channel) * pieces;
      for (std::int64_t piece = thread.index(); piece < pieces; piece += kWarp) sums[k] += of_pieces[piece];
      sums[k] = block_reduce(thread, sums[k], static_cast<std::size_t>(k) * reduce_bytes<double>(), Sum());
    }
    if (thread.index() == 0) finish(channel, sums);
  }
};

/// Calls finish(c, sums) once for each channel, with the sums of the terms of its elements; see PartialChannelSums.
/// `partials`: cut.partial_bytes(kSums) of workspace.
template <int kSums, class Term, class Finish>
void sum_channels(void* queue, const ChannelCut& cut, void* partials, const Term& term, const Finish& finish) {
  auto* sums = static_cast<double*>(partials);
  launch_blocks(queue,
                {.blocks = cut.tiles * cut.pieces,
                 .threads = ChannelCut::kThreads,
                 .shared_bytes = kSums * ChannelCut::kThreads * sizeof(double)},
                PartialChannelSums<kSums, Term>{cut, term, sums});
  using Few = CombineFewChannelSums<kSums, Finish>;
  if (cut.pieces <= Few::kMost) {
    launch_each(queue, cut.of.channels, Few{cut.of.channels, cut.pieces, sums, finish});
  } else {
    launch_blocks(queue, {.blocks = cut.of.channels, .threads = kWarp, .shared_bytes = kSums * reduce_bytes<double>()},
                  CombineChannelSums<kSums, Finish>{cut.of.channels, cut.pieces, sums, finish});
  }
}

}  // namespace sectionflow::gpu
