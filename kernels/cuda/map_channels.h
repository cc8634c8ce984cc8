#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/channels.h"

namespace sectionflow::gpu {

/// Walks over neighbouring elements with their channels: one division for all.
class ChannelWalk {
 public:
  SF_HOST_DEVICE ChannelWalk(const Channels& of, std::int64_t element) : of_(of) {
    if (of.num_elements() <= 0xFFFFFFFFLL) {  // divisions of 64 bits take several times as long
      const auto at = static_cast<std::uint32_t>(element), plane = static_cast<std::uint32_t>(of.plane);
      const std::uint32_t number = at / plane;
      const auto row = static_cast<std::uint32_t>(of.row), images = static_cast<std::uint32_t>(of.images);
      const std::uint32_t image = number / row, before = image / images;
      in_plane_ = at - number * plane;
      in_row_ = number - image * row;
      image_ = image - before * images;
      first_ = static_cast<std::int64_t>(before) * row;
    } else {
      in_plane_ = element % of.plane;
      in_row_ = element / of.plane % of.row;
      image_ = element / of.plane / of.row % of.images;
      first_ = element / of.plane / of.row / of.images * of.row;
    }
  }
  SF_HOST_DEVICE std::int64_t channel() const { return first_ + in_row_; }
  SF_HOST_DEVICE void next() {
    if (++in_plane_ < of_.plane) return;
    in_plane_ = 0;
    if (++in_row_ < of_.row) return;
    in_row_ = 0;
    if (++image_ < of_.images) return;
    image_ = 0;
    first_ += of_.row;
  }

 private:
  const Channels& of_;
  std::int64_t first_, in_row_, image_, in_plane_;
};

/// y[i] = f(0, {inputs[k][i]...}), a function of floats, f = function.of_channels<1>(channel of i), for elements stored
/// as T, a pack a thread; y may lie over any of the inputs.
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
        y[i] = static_cast<T>(function.template of_channels<1>(walk.channel())(0, values));
      }
      return;
    }
    Pack<T, kWidth> packs[kInputs], result;
    for (int k = 0; k < kInputs; ++k) packs[k] = load_pack<kWidth>(inputs[k] + first);
    auto of_channel = function.template of_channels<1>(walk.channel());
    const bool is_one_channel = of.plane % kWidth == 0;
    for (int i = 0; i < kWidth; ++i) {
      for (int k = 0; k < kInputs; ++k) values[k] = packs[k].values[i];
      result.values[i] = static_cast<T>(of_channel(0, values));
      if (is_one_channel || i + 1 == kWidth) continue;
      walk.next();
      of_channel = function.template of_channels<1>(walk.channel());
    }
    store_pack(y + first, result);
  }
};

/// The same where channels come last, in whole packs: y = f(i, ...) for channel c + i, f = function.of_channels<width
/// of a pack>(c). A thread stays on the channels of one pack, whose numbers it keeps in registers, and goes down the
/// rows.
template <class T, int kInputs, class Function>
struct MapChannelPacks {
  static constexpr int kWidth = pack_width<T>();
  static constexpr int kAtATime = 4;                       // rows whose loads are on the way together
  static constexpr std::int64_t kEnoughBlocks = 132 * 16;  // four waves of four blocks a multiprocessor

  MapChannelPacks(const Channels& of, const MapChannels<T, kInputs, Function>& map)
      : map(map), tiles(of.channels / kWidth, kWarp) {
    chunks = blocks_for(of.count(), kAtATime * tiles.rows);
    step = std::clamp<std::int64_t>(kEnoughBlocks / tiles.count, 1, std::max<std::int64_t>(1, chunks));
  }
  static bool takes(const Channels& of) { return of.plane == 1 && of.row % kWidth == 0 && of.channels > 0; }
  LaunchShape launch_shape() const { return {.blocks = step * tiles.count, .threads = Tiles::kThreads}; }

  template <class Thread>
  SF_HOST_DEVICE void operator()(Thread& thread) const {
    const std::int64_t count = map.of.images;
    const auto place = tiles.place_of(thread);
    if (!place.is_one) return;
    const std::int64_t channel = place.unit * kWidth;
    const auto function = map.function.template of_channels<kWidth>(channel);
    const std::int64_t down = tiles.rows * map.of.row, first = map.of.first(channel);
    // The last rows first: they are still in cache if sums of all have been taken before.
    for (std::int64_t chunk = chunks - 1 - place.piece; chunk >= 0; chunk -= step) {
      const std::int64_t row = chunk * kAtATime * tiles.rows + place.row, at = first + row * map.of.row;
      if (row + (kAtATime - 1) * tiles.rows < count) {
        map_rows<kAtATime>(function, at, down);
      } else {
        for (std::int64_t rest = 0; row + rest * tiles.rows < count; ++rest) map_rows<1>(function, at + rest * down, 0);
      }
    }
  }

  /// The packs at `at`, at + down, ...
  template <int kRows, class OfChannels>
  SF_HOST_DEVICE void map_rows(const OfChannels& function, std::int64_t at, std::int64_t down) const {
    Pack<T, kWidth> packs[kRows][kInputs];
    for (int r = 0; r < kRows; ++r) {
      for (int k = 0; k < kInputs; ++k) packs[r][k] = load_pack<kWidth>(map.inputs[k] + at + r * down);
    }
    for (int r = 0; r < kRows; ++r) {
      Pack<T, kWidth> result;
      for (int i = 0; i < kWidth; ++i) {
        float values[kInputs];
        for (int k = 0; k < kInputs; ++k) values[k] = packs[r][k].values[i];
        result.values[i] = static_cast<T>(function(i, values));
      }
      store_pack(map.y + at + r * down, result);
    }
  }

  MapChannels<T, kInputs, Function> map;
  Tiles tiles;
  std::int64_t chunks, step;  // of kAtATime rows a thread; from a block's chunk to its next
};

template <class T, int kInputs, class Function>
void launch_map_channels(void* queue, const MapChannels<T, kInputs, Function>& body) {
  using Packs = MapChannelPacks<T, kInputs, Function>;
  if (Packs::takes(body.of)) {
    const Packs packs(body.of, body);
    launch_blocks(queue, packs.launch_shape(), packs);
  } else {
    launch_each(queue, blocks_for(body.of.num_elements(), body.kWidth), body);
  }
}

}  // namespace sectionflow::gpu
