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

/// The rows of a tensor [..., C], with a team of threads each: one thread, a warp or a block, by their length. Elements
/// are taken in packs, of as many of f32 as of bf16, so that both are summed in one order: 16 bytes of bf16.
struct RowTeams {
  static constexpr int kPack = 8;
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

/// A row of a tensor in which rows follow each other. Where they are no whole packs, a row begins anywhere in one.
template <class T>
struct TensorRow {
  T* begin;
  int lead;  ///< elements before the first that lies at a multiple of a pack
};

/// The team that a thread belongs to. Its rows are `for (row = team.first_row(); row < rows.count; row +=
/// team.row_step())`; of a row, the thread has the packs from lane() on in steps of size(). All threads of a team must
/// call its reductions: behind one, all of them have read what they read before it.
///
/// What is done with each element i is a function (i, x[i]...) of floats, where an `x`, of f32 or bf16, is
/// - row(tensor, n), with the same n for all: loaded in packs whatever the length of the rows; or
/// - a pointer to as many elements, at a multiple of a pack where rows are whole packs: loaded in packs then alone.
template <class Thread>
class RowTeam {
 public:
  SF_HOST_DEVICE RowTeam(Thread& thread, const RowTeams& rows) : thread_(thread), rows_(rows) {}

  SF_HOST_DEVICE int lane() const { return thread_.index() % rows_.team; }
  SF_HOST_DEVICE int size() const { return rows_.team; }
  SF_HOST_DEVICE std::int64_t first_row() const { return thread_.block() * teams() + thread_.index() / rows_.team; }
  SF_HOST_DEVICE std::int64_t row_step() const { return thread_.num_blocks() * teams(); }

  /// Row n of a tensor that begins at a multiple of a pack.
  template <class T>
  SF_HOST_DEVICE TensorRow<T> row(T* tensor, std::int64_t n) const {
    const std::int64_t at = n * rows_.length;
    return {tensor + at, static_cast<int>(-at & (RowTeams::kPack - 1))};
  }

  /// The sum of term(i, x[i]...), a float, in double, over i in [0, length), in an order that the length of the rows,
  /// and of rows of a tensor their number, alone decide.
  template <class Term, class... X>
  SF_HOST_DEVICE double sum(const Term& term, const X&... x) {
    double sum = 0;
    const auto add = [&](auto, auto width, std::int64_t at, const auto&... packs) {
      for (int k = 0; k < width.value; ++k) {
        sum += static_cast<double>(term(at + k, static_cast<float>(packs.values[k])...));
      }
    };
    with_packs<kAtOnce<X...>>(lead_of(x...), add, x...);
    return reduce(sum, Sum());
  }
  struct Exponentials {
    float shift;  // the largest element, passing over NaN; -infinity where there is none
    double sum;   // of exp(x - shift)
  };
  /// In one pass over a row: a long one does not stay in cache for a second. Each thread sums around the largest
  /// element that it has met, and moves its sum on as that grows. Source: Milakov and Gimelshein 2018, online
  /// normaliser.
  template <class X>
  SF_HOST_DEVICE Exponentials exponentials(const X& row) {
    Exponentials own{-std::numeric_limits<float>::infinity(), 0};
    is_whole() ? add_exponentials<true>(row, own) : add_exponentials<false>(row, own);
    const float shift = reduce(own.shift, Larger());
    return {shift, reduce(own.sum * static_cast<double>(vector_math::exp(own.shift - shift)), Sum())};
  }
  /// y[i] = function(i, x[i]...), a float, for i in [0, length); y is such as x may be. It may lie over any x, and over
  /// what the function reads of element i.
  template <class Y, class Function, class... X>
  SF_HOST_DEVICE void map(const Y& y, const Function& function, const X&... x) {
    const auto write = [&](auto whole, auto width, std::int64_t at, const auto&... packs) {
      Pack<Stored<Y>, width.value> result;
      for (int k = 0; k < width.value; ++k) {
        result.values[k] = static_cast<Stored<Y>>(function(at + k, static_cast<float>(packs.values[k])...));
      }
      store<whole.value>(y, at, result);
    };
    with_packs<kAtOnce<X...>>(lead_of(y, x...), write, x...);
  }

 private:
  static constexpr int kPack = RowTeams::kPack;

  template <class X>
  struct ElementOf;
  template <class T>
  struct ElementOf<T*> {
    using Type = std::remove_const_t<T>;
  };
  template <class T>
  struct ElementOf<TensorRow<T>> {
    using Type = std::remove_const_t<T>;
  };
  template <class X>
  using Stored = typename ElementOf<X>::Type;
  /// Packs of each x whose loads are on the way together, of 64 bytes in all.
  template <class... X>
  static constexpr int kAtOnce = std::max({sizeof(float) / 2, sizeof(Stored<X>)...}) == 2 ? 4 : 2;

  template <class T>
  SF_HOST_DEVICE static int lead_of_one(const T*) {
    return 0;
  }
  template <class T>
  SF_HOST_DEVICE static int lead_of_one(const TensorRow<T>& x) {
    return x.lead;
  }
  template <class... X>
  SF_HOST_DEVICE static int lead_of(const X&... x) {
    return (0 | ... | lead_of_one(x));
  }

  // kWhole: rows are whole packs, so that pointers lie at multiples of them as well.
  template <bool kWhole, int kWidth, class T>
  SF_HOST_DEVICE static Pack<T, kWidth> load(const T* x, std::int64_t i) {
    if constexpr (kWhole) {
      return load_pack<kWidth>(x + i);
    } else {
      Pack<T, kWidth> pack;
      for (int k = 0; k < kWidth; ++k) pack.values[k] = x[i + k];
      return pack;
    }
  }
  template <bool kWhole, int kWidth, class T>
  SF_HOST_DEVICE static auto load(const TensorRow<T>& x, std::int64_t i) {
    return load_pack<kWidth>(static_cast<const std::remove_const_t<T>*>(x.begin + i));
  }
  template <bool kWhole, class T, int kWidth>
  SF_HOST_DEVICE static void store(T* y, std::int64_t i, const Pack<T, kWidth>& pack) {
    if constexpr (kWhole) {
      store_pack(y + i, pack);
    } else {
      for (int k = 0; k < kWidth; ++k) y[i + k] = pack.values[k];
    }
  }
  template <bool kWhole, class T, int kWidth>
  SF_HOST_DEVICE static void store(const TensorRow<T>& y, std::int64_t i, const Pack<T, kWidth>& pack) {
    store_pack(y.begin + i, pack);
  }

  SF_HOST_DEVICE bool is_whole() const { return rows_.length % kPack == 0; }

  /// use(whole, width, i, the pack of `width` elements of each x from i on) for the thread's packs in turn; `width` is
  /// 1 where a row begins or ends within a pack.
  template <int kMost, class Use, class... X>
  SF_HOST_DEVICE void with_packs(int lead, const Use& use, const X&... x) const {
    is_whole() ? in_turn<true, kMost>(0, use, x...) : in_turn<false, kMost>(lead, use, x...);
  }
  template <bool kWhole, int kMost, class Use, class... X>
  SF_HOST_DEVICE void in_turn(int lead, const Use& use, const X&... x) const {
    const std::int64_t step = kPack * size();
    std::int64_t i = first_of(lead);
    if (!kWhole && i < 0) {
      one_by_one(i, use, x...);
      i += step;
    }
    for (; has_packs(i, kMost); i += kMost * step) at_once<kWhole, kPack, kMost>(i, step, use, x...);
    if (kMost > 2 && has_packs(i, 2)) {
      at_once<kWhole, kPack, 2>(i, step, use, x...);
      i += 2 * step;
    }
    for (; has_packs(i, 1); i += step) at_once<kWhole, kPack, 1>(i, step, use, x...);
    if (!kWhole) one_by_one(i, use, x...);
  }
  /// Where the thread's first pack begins, which may be before the row.
  SF_HOST_DEVICE std::int64_t first_of(int lead) const { return (lead == 0 ? 0 : lead - kPack) + kPack * lane(); }
  /// Whether `count` of the thread's packs from i on are all of the row.
  SF_HOST_DEVICE bool has_packs(std::int64_t i, int count) const {
    return i + (count - 1) * kPack * size() + kPack <= rows_.length;
  }
  /// What a row has of the pack that begins at i, if anything.
  template <class Use, class... X>
  SF_HOST_DEVICE void one_by_one(std::int64_t i, const Use& use, const X&... x) const {
    const std::int64_t end = i + kPack < rows_.length ? i + kPack : rows_.length;
    for (std::int64_t at = i < 0 ? 0 : i; at < end; ++at) at_once<false, 1, 1>(at, 0, use, x...);
  }
  /// kCount packs are loaded before the first of them is used, so that they are on the way together.
  template <bool kWhole, int kWidth, int kCount, class Use, class... X>
  SF_HOST_DEVICE static void at_once(std::int64_t i, std::int64_t step, const Use& use, const X&... x) {
    std::tuple<Pack<Stored<X>, kWidth>...> loaded[kCount];
    SF_UNROLL
    for (int ahead = 0; ahead < kCount; ++ahead) loaded[ahead] = {load<kWhole, kWidth>(x, i + ahead * step)...};
    SF_UNROLL
    for (int ahead = 0; ahead < kCount; ++ahead) {
      std::apply(
          [&](const auto&... packs) {
            use(std::bool_constant<kWhole>(), std::integral_constant<int, kWidth>(), i + ahead * step, packs...);
          },
          loaded[ahead]);
    }
  }

  template <bool kWhole, class X>
  SF_HOST_DEVICE void add_exponentials(const X& row, Exponentials& own) const {
    const std::int64_t step = kPack * size();
    std::int64_t i = first_of(kWhole ? 0 : lead_of(row));
    const auto add_one = [&](auto, auto, std::int64_t at, const auto&) {
      add_exponentials_of<false, 1, 1>(row, at, 0, own);
    };
    if (!kWhole && i < 0) {
      one_by_one(i, add_one, row);
      i += step;
    }
    for (; has_packs(i, 2); i += 2 * step) add_exponentials_of<kWhole, kPack, 2>(row, i, step, own);
    if (has_packs(i, 1)) {
      add_exponentials_of<kWhole, kPack, 1>(row, i, step, own);
      i += step;
    }
    if (!kWhole) one_by_one(i, add_one, row);
  }
  template <bool kWhole, int kWidth, int kCount, class X>
  SF_HOST_DEVICE static void add_exponentials_of(const X& row, std::int64_t i, std::int64_t step, Exponentials& own) {
    float x[kCount * kWidth];
    SF_UNROLL
    for (int ahead = 0; ahead < kCount; ++ahead) {
      const auto pack = load<kWhole, kWidth>(row, i + ahead * step);
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
