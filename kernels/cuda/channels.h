#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/shape.h"
#include "graph/ops/data_format.h"
#include "kernels/cuda/block_reduce.h"
#include "kernels/cuda/elements.h"
#include "kernels/cuda/launch.h"

namespace sectionflow::gpu {

/// A tensor seen as [N, C, S]: a channel has S neighbouring elements an image; S is 1 where channels come last.
/// `of_each_image` sees each image of a batch for itself: the channels of all of them follow each other.
struct Channels {
  Channels(const Shape& shape, DataFormat format) : channels(shape[channel_axis(format)]) {
    const int rank = shape.rank();
    const int channel = format == DataFormat::nhwc ? rank - 1 : 1;
    for (int axis = 0; axis < channel; ++axis) images *= shape[axis];
    for (int axis = channel + 1; axis < rank; ++axis) plane *= shape[axis];
    row = channels;
  }
  static Channels of_each_image(const Shape& shape, DataFormat format) {
    Channels of(shape, format);
    of.channels *= shape[0];
    of.images = 1;
    if (format == DataFormat::nchw) {
      of.row = of.channels;
    } else {
      for (int axis = 1; axis + 1 < shape.rank(); ++axis) of.images *= shape[axis];
    }
    return of;
  }

  /// Elements of a channel, and of all.
  SF_HOST_DEVICE std::int64_t count() const { return images * plane; }
  SF_HOST_DEVICE std::int64_t num_elements() const { return count() * channels; }
  /// The first element of a channel; that of the next image is row * plane further.
  SF_HOST_DEVICE std::int64_t first(std::int64_t channel) const {
    if (row == channels) return channel * plane;
    const std::int64_t before = channel / row;
    return (before * images * row + (channel - before * row)) * plane;
  }

  std::int64_t images = 1, channels, plane = 1;
  std::int64_t row;  // channels that are neighbours: all, or those of one image
};

/// The numbers of some neighbouring channels, in registers.
template <int kWidth>
struct Floats {
  float values[kWidth];
  SF_HOST_DEVICE float operator[](int i) const { return values[i]; }
};
/// From `place` on, a multiple of their bytes, or of 16.
template <int kWidth>
SF_HOST_DEVICE Floats<kWidth> load_floats(const float* place) {
  constexpr int kPart = kWidth < 4 ? kWidth : 4;
  Floats<kWidth> all;
  for (int begin = 0; begin < kWidth; begin += kPart) {
    const Pack<float, kPart> part = load_pack<kPart>(place + begin);
    for (int i = 0; i < kPart; ++i) all.values[begin + i] = part.values[i];
  }
  return all;
}

/// `units` of neighbouring elements side by side in tiles, one a block: neighbouring threads have neighbouring units of
/// a row, and the block's threads some rows. All tiles of a piece of the rows come before the next piece.
struct Tiles {
  static constexpr int kThreads = 256;

  Tiles(std::int64_t units, int most_width)
      : units(units),
        count(std::max<std::int64_t>(1, blocks_for(units, most_width))),
        width(static_cast<int>(std::max<std::int64_t>(1, (units + count - 1) / count))),
        rows(kThreads / width) {}

  struct Place {
    std::int64_t unit, piece;
    int row;
    bool is_one;  // threads that fill no row, or stand behind the last unit, have none
  };
  template <class Thread>
  SF_HOST_DEVICE Place place_of(const Thread& thread) const {
    const auto block = static_cast<std::uint32_t>(thread.block()), tiles = static_cast<std::uint32_t>(count);
    const std::uint32_t piece = block / tiles, tile = block - piece * tiles;
    const int row = thread.index() / width;
    const std::int64_t unit = static_cast<std::int64_t>(tile) * width + (thread.index() - row * width);
    return {unit, piece, row, row < rows && unit < units};
  }

  std::int64_t units, count;
  int width, rows;
};

/// How sums over the elements of each channel are cut, by shape alone, so that f32 and bf16 are summed in one order. A
/// block sums a piece of some channels: of neighbouring ones where channels come last, of which a thread has a pack if
/// they are whole packs; else of one.
struct ChannelCut {
  static constexpr int kPack = 4;
  static constexpr std::int64_t kEnoughBlocks = 1056;  // eight for each of 132 multiprocessors
  static constexpr std::int64_t kEnoughTerms = 8;      // of a thread
  static constexpr std::int64_t kAtATime = 4;          // terms whose loads are on the way together

  explicit ChannelCut(const Channels& of)
      : of(of),
        pack(of.plane == 1 && of.row % kPack == 0 ? kPack : 1),
        tiles(of.channels / pack, of.plane == 1 ? kWarp : 1) {
    const std::int64_t most = std::max<std::int64_t>(1, kEnoughBlocks / std::max<std::int64_t>(1, tiles.count));
    const std::int64_t terms = std::max(kEnoughTerms, (of.count() + tiles.rows * most - 1) / (tiles.rows * most));
    piece = (terms + kAtATime - 1) / kAtATime * kAtATime * tiles.rows;
    pieces = std::max<std::int64_t>(1, (of.count() + piece - 1) / piece);
  }
  /// Bytes of `num_sums` partial sums a channel and piece.
  std::size_t partial_bytes(int num_sums) const {
    return static_cast<std::size_t>(num_sums * of.channels * pieces) * sizeof(double);
  }

  Channels of;
  int pack;  // channels of a thread
  Tiles tiles;
  std::int64_t pieces;  // along a channel
  std::int64_t piece;   // elements of a channel in a block
};

/// Where the elements of a channel lie, from the `number`th on in steps of `step`.
template <bool kChannelsLast>
class ChannelElements {
 public:
  SF_HOST_DEVICE ChannelElements(const Channels& of, std::int64_t channel, std::int64_t number, std::int64_t step)
      : of_(of), first_(of.first(channel)), image_(number / of.plane), in_plane_(number % of.plane) {
    step_images_ = step / of.plane;
    step_ = step % of.plane;
  }
  SF_HOST_DEVICE std::int64_t next() {
    const std::int64_t element = first_ + image_ * of_.row * of_.plane + in_plane_;
    image_ += step_images_;
    in_plane_ += step_;
    if (in_plane_ >= of_.plane) {
      in_plane_ -= of_.plane;
      ++image_;
    }
    return element;
  }

 private:
  const Channels& of_;
  std::int64_t first_, image_, in_plane_, step_images_, step_;
};
template <>
class ChannelElements<true> {
 public:
  SF_HOST_DEVICE ChannelElements(const Channels& of, std::int64_t channel, std::int64_t number, std::int64_t step)
      : element_(of.first(channel) + number * of.row), step_(step * of.row) {}
  SF_HOST_DEVICE std::int64_t next() {
    const std::int64_t element = element_;
    element_ += step_;
    return element;
  }

 private:
  std::int64_t element_, step_;
};

/// What the terms of a row share, where they share nothing.
struct NoRow {};

/// The sums of a block: partials[k, c, piece]. `Term` has `Element`, the type of what is summed, and
/// - `inputs[kInputs]`, where it lies;
/// - `of_channels<n>(c)`: what is known of the channels from c on. A function (i, row, values, sums) that adds the
/// terms
///   of an element of channel c + i, of which values[k] is inputs[k]'s, to the double sums[kSums];
/// - `of_row(number)`: what is known of all elements that have this number within their channels.
template <int kPack, int kSums, class Term>
struct PartialChannelSums {
  static constexpr int kInputs = Term::kInputs;
  ChannelCut cut;
  Term term;
  double* partials;

  template <class Thread>
  SF_HOST_DEVICE void operator()(Thread& thread) const {
    const auto place = cut.tiles.place_of(thread);
    const std::int64_t channel = place.unit * kPack;
    double sums[kPack][kSums] = {};
    if (place.is_one) add_piece(channel, place.piece * cut.piece, place.row, sums);
    add_rows(thread, place.row, sums);
    if (place.row != 0 || !place.is_one) return;
    for (int i = 0; i < kPack; ++i) {
      for (int k = 0; k < kSums; ++k) {
        partials[(k * cut.of.channels + channel + i) * cut.pieces + place.piece] = sums[i][k];
      }
    }
  }

 private:
  struct Loaded {
    Pack<typename Term::Element, kPack> packs[kInputs];
    decltype(std::declval<const Term&>().of_row(0)) row;
  };

  SF_HOST_DEVICE void add_piece(std::int64_t channel, std::int64_t begin, int row, double (&sums)[kPack][kSums]) const {
    const std::int64_t count = cut.of.count(), end = begin + cut.piece < count ? begin + cut.piece : count;
    if (count == 0) return;
    const auto of_channels = term.template of_channels<kPack>(channel);
    ChannelElements<(kPack > 1)> elements(cut.of, channel, begin + row, cut.tiles.rows);
    std::int64_t number = begin + row;
    const auto load = [&] {
      Loaded loaded;
      const std::int64_t at = elements.next();
      for (int k = 0; k < kInputs; ++k) loaded.packs[k] = load_pack<kPack>(term.inputs[k] + at);
      loaded.row = term.of_row(number);
      number += cut.tiles.rows;
      return loaded;
    };
    const auto add = [&](const Loaded& loaded) {
      for (int i = 0; i < kPack; ++i) {
        float values[kInputs];
        for (int k = 0; k < kInputs; ++k) values[k] = loaded.packs[k].values[i];
        of_channels(i, loaded.row, values, sums[i]);
      }
    };
    constexpr int kAtATime = ChannelCut::kAtATime;
    while (number + (kAtATime - 1) * cut.tiles.rows < end) {
      Loaded loaded[kAtATime];
      for (int ahead = 0; ahead < kAtATime; ++ahead) loaded[ahead] = load();
      for (int ahead = 0; ahead < kAtATime; ++ahead) add(loaded[ahead]);
    }
    while (number < end) add(load());
  }

  /// Gives row 0 the sums of all rows.
  template <class Thread>
  SF_HOST_DEVICE void add_rows(Thread& thread, int row, double (&sums)[kPack][kSums]) const {
    auto shared = thread.template shared<double>(0, kPack * kSums * Tiles::kThreads);
    const auto slot = [&](int i, int k) { return (i * kSums + k) * Tiles::kThreads + thread.index(); };
    for (int i = 0; i < kPack; ++i) {
      for (int k = 0; k < kSums; ++k) shared[slot(i, k)] = sums[i][k];
    }
    for (int rows = cut.tiles.rows; rows > 1;) {
      thread.barrier();
      const int half = (rows + 1) / 2;  // row r takes row r + half
      if (row + half < rows) {
        for (int i = 0; i < kPack; ++i) {
          for (int k = 0; k < kSums; ++k) {
            const double other = shared[slot(i, k) + half * cut.tiles.width];
            sums[i][k] += other;
            shared[slot(i, k)] = sums[i][k];
          }
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
    for (std::int64_t piece = 0; piece < pieces; ++piece) {
      for (int k = 0; k < kSums; ++k) sums[k] += partials[(k * channels + channel) * pieces + piece];
    }
    finish(channel, sums);
  }
};

/// The same with a block a channel.
template <int kSums, class Finish>
struct CombineChannelSums {
  std::int64_t channels, pieces;
  const double* partials;
  Finish finish;

  LaunchShape launch_shape() const {
    constexpr std::int64_t kTermsOfLane = 2;
    const auto warps = static_cast<int>(std::clamp<std::int64_t>(pieces / (kTermsOfLane * kWarp), 1, 8));
    return {.blocks = channels, .threads = warps * kWarp, .shared_bytes = kSums * reduce_bytes<double>()};
  }

  template <class Thread>
  SF_HOST_DEVICE void operator()(Thread& thread) const {
    const std::int64_t channel = thread.block();
    const double* of_channel = partials + channel * pieces;
    double sums[kSums] = {};
    for (std::int64_t piece = thread.index(); piece < pieces; piece += thread.block_size()) {
      for (int k = 0; k < kSums; ++k) sums[k] += of_channel[k * channels * pieces + piece];
    }
    for (int k = 0; k < kSums; ++k) {
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
  const LaunchShape shape{
      .blocks = cut.tiles.count * cut.pieces,
      .threads = Tiles::kThreads,
      .shared_bytes = static_cast<std::size_t>(cut.pack) * kSums * Tiles::kThreads * sizeof(double)};
  if (cut.pack == 1) {
    launch_blocks(queue, shape, PartialChannelSums<1, kSums, Term>{cut, term, sums});
  } else {
    launch_blocks(queue, shape, PartialChannelSums<ChannelCut::kPack, kSums, Term>{cut, term, sums});
  }
  if (cut.pieces <= CombineFewChannelSums<kSums, Finish>::kMost) {
    launch_each(queue, cut.of.channels,
                CombineFewChannelSums<kSums, Finish>{cut.of.channels, cut.pieces, sums, finish});
  } else {
    const CombineChannelSums<kSums, Finish> combine{cut.of.channels, cut.pieces, sums, finish};
    launch_blocks(queue, combine.launch_shape(), combine);
  }
}

}  // namespace sectionflow::gpu
