#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <tuple>
#include <type_traits>

#include "base/shape.h"
#include "kernels/cuda/block_reduce.h"
#include "kernels/cuda/elements.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/unroll.h"
#include "kernels/vector_math.h"

namespace sectionflow::gpu {

/// The rows of a tensor [..., C], with a team of threads each: one thread, a warp or a block, by their length. Rows
/// that are whole packs are taken in packs, of as many elements of f32 as of bf16, so that both are summed in one
/// order.
struct RowTeams {
  static constexpr int kPack = 4;
  static constexpr std::int64_t kLongestOfThread = 16, kLongestOfWarp = 1024;
  static constexpr int kBlock = 256;
  static constexpr std::int64_t kEnoughBlocks = 264;  // two for each of 132 multiprocessors
  static constexpr std::int64_t kMostBlocks = std::int64_t{1} << 30;
  static constexpr std::size_t kSlotBytes = reduce_bytes<double>();

  explicit RowTeams(const Shape& shape)
      : length(shape[-1]),
        count(length == 0 ? 0 : shape.num_elements() / length),
        team(length <= kLongestOfThread ? 1
             : length <= kLongestOfWarp ? kWarp
                                        : kBlock) {}

  LaunchShape launch_shape() const {
    if (team == kBlock)
      return {.blocks = std::min(count, kMostBlocks), .threads = kBlock, .shared_bytes = 2 * kSlotBytes};
    const std::int64_t warps = std::clamp<std::int64_t>(count / kEnoughBlocks * team / kWarp, 1, kBlock / kWarp);
    const std::int64_t teams = warps * kWarp / team;
    return {.blocks = std::min((count + teams - 1) / teams, kMostBlocks), .threads = static_cast<int>(warps) * kWarp};
  }

  std::int64_t length, count;
  int team;  // threads
};

/// The team that a thread belongs to. Its rows are `for (row = team.first_row(); row < rows.count; row +=
/// team.row_step())`; of a row, the thread has the elements, or packs, from lane() on in steps of size(). All threads
/// of a team must call its reductions: behind one, all of them have read what they read before it.
///
/// What is done with each element i is a function (i, x[i]...) of floats, where the `x` are rows, or others of as many
/// elements that lie at a multiple of a pack, of f32 or bf16: loaded together.
template <class Thread>
class RowTeam {
 public:
  SF_HOST_DEVICE RowTeam(Thread& thread, const RowTeams& rows) : thread_(thread), rows_(rows) {}

  SF_HOST_DEVICE int lane() const { return thread_.index() % rows_.team; }
  SF_HOST_DEVICE int size() const { return rows_.team; }
  SF_HOST_DEVICE std::int64_t first_row() const { return thread_.block() * teams() + thread_.index() / rows_.team; }
  SF_HOST_DEVICE std::int64_t row_step() const { return thread_.num_blocks() * teams(); }

  /// The sum of term(i, x[i]...), a float, in double, over i in [0, length), in an order that the shape alone decides.
  template <class Term, class... X>
  SF_HOST_DEVICE double sum(const Term& term, const X*... x) {
    double sum = 0;
    for_each([&](std::int64_t i, auto... values) { sum += static_cast<double>(term(i, values...)); }, x...);
    return reduce(sum, Sum());
  }
  struct Exponentials {
    float shift;  // the largest element, passing over NaN; -infinity where there is none
    double sum;   // of exp(x - shift)
  };
  /// In one pass over a row: a long one does not stay in cache for a second. Each thread sums around the largest
  /// element that it has met, and moves its sum on as that grows. Source: Milakov and Gimelshein 2018, online
  /// normaliser.
  template <class T>
  SF_HOST_DEVICE Exponentials exponentials(const T* row) {
    Exponentials own{-std::numeric_limits<float>::infinity(), 0};
    if (rows_.length % RowTeams::kPack == 0) {
      add_exponentials<RowTeams::kPack>(row, own);
    } else {
      add_exponentials<1>(row, own);
    }
    const float shift = reduce(own.shift, Larger());
    return {shift, reduce(own.sum * static_cast<double>(vector_math::exp(own.shift - shift)), Sum())};
  }
  /// y[i] = function(i, x[i]...), a float, for i in [0, length). y may lie over any x, and over what the function reads
  /// of element i.
  template <class T, class Function, class... X>
  SF_HOST_DEVICE void map(T* y, const Function& function, const X*... x) {
    with_packs(
        [&](auto width, std::int64_t at, const auto&... packs) {
          Pack<T, width.value> result;
          for (int k = 0; k < width.value; ++k) {
            result.values[k] = static_cast<T>(function(at + k, static_cast<float>(packs.values[k])...));
          }
          store_pack(y + at, result);
        },
        x...);
  }

 private:
  /// use(i, x[i]...) for the thread's i in turn.
  template <class Use, class... X>
  SF_HOST_DEVICE void for_each(const Use& use, const X*... x) const {
    with_packs(
        [&](auto width, std::int64_t at, const auto&... packs) {
          for (int k = 0; k < width.value; ++k) use(at + k, static_cast<float>(packs.values[k])...);
        },
        x...);
  }

  /// use(width, i, the pack of `width` elements of each x from i on) for the thread's packs in turn.
  template <class Use, class... X>
  SF_HOST_DEVICE void with_packs(const Use& use, const X*... x) const {
    if (rows_.length % RowTeams::kPack == 0) {
      in_turn<RowTeams::kPack>(use, x...);
    } else {
      in_turn<1>(use, x...);
    }
  }
  template <int kWidth, class Use, class... X>
  SF_HOST_DEVICE void in_turn(const Use& use, const X*... x) const {
    const std::int64_t length = rows_.length, step = kWidth * size();
    std::int64_t i = kWidth * lane();
    for (; i + 3 * step < length; i += 4 * step) at_once<kWidth, 4>(i, step, use, x...);
    if (i + step < length) {
      at_once<kWidth, 2>(i, step, use, x...);
      i += 2 * step;
    }
    if (i < length) at_once<kWidth, 1>(i, step, use, x...);
  }
  /// kCount packs are loaded before the first of them is used, so that they are on the way together.
  template <int kWidth, int kCount, class Use, class... X>
  SF_HOST_DEVICE static void at_once(std::int64_t i, std::int64_t step, const Use& use, const X*... x) {
    std::tuple<Pack<X, kWidth>...> loaded[kCount];
    for (int ahead = 0; ahead < kCount; ++ahead) loaded[ahead] = {load_pack<kWidth>(x + i + ahead * step)...};
    for (int ahead = 0; ahead < kCount; ++ahead) {
      std::apply([&](const auto&... packs) { use(std::integral_constant<int, kWidth>(), i + ahead * step, packs...); },
                 loaded[ahead]);
    }
  }

  template <int kWidth, class T>
  SF_HOST_DEVICE void add_exponentials(const T* row, Exponentials& own) const {
    const std::int64_t length = rows_.length, step = kWidth * size();
    std::int64_t i = kWidth * lane();
    for (; i + 3 * step < length; i += 4 * step) add_exponentials_of<kWidth, 4>(row + i, step, own);
    for (; i < length; i += step) add_exponentials_of<kWidth, 1>(row + i, step, own);
  }
  template <int kWidth, int kCount, class T>
  SF_HOST_DEVICE static void add_exponentials_of(const T* first, std::int64_t step, Exponentials& own) {
    float x[kCount * kWidth];
    SF_UNROLL
    for (int ahead = 0; ahead < kCount; ++ahead) {
      const Pack<T, kWidth> pack = load_pack<kWidth>(first + ahead * step);
      SF_UNROLL
      for (int k = 0; k < kWidth; ++k) x[ahead * kWidth + k] = pack.values[k];
    }
    float largest = own.shift;
    SF_UNROLL
    for (const float value : x) largest = value > largest ? value : largest;
    // Around 0 while all are -infinity, whose difference is NaN.
    const float shift = largest == -std::numeric_limits<float>::infinity() ? 0.0F : largest;
    own.sum *= static_cast<double>(vector_math::exp(own.shift - shift));
    SF_UNROLL
    for (const float value : x) own.sum += static_cast<double>(vector_math::exp(value - shift));
    own.shift = largest;
  }

  SF_HOST_DEVICE int teams() const { return thread_.block_size() / rows_.team; }

  template <class T, class Combine>
  SF_HOST_DEVICE T reduce(T value, const Combine& combine) {
    if (rows_.team == 1) return value;
    if (rows_.team == kWarp) return warp_reduce(thread_, value, combine);
    // Two slots in turn: the barrier within one reduction frees the slot of the one before.
    slot_ = 1 - slot_;
    return block_reduce(thread_, value, static_cast<std::size_t>(slot_) * RowTeams::kSlotBytes, combine);
  }

  Thread& thread_;
  const RowTeams& rows_;
  int slot_ = 0;
};

}  // namespace sectionflow::gpu
