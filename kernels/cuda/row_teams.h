#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "base/shape.h"
#include "kernels/cuda/block_reduce.h"
#include "kernels/cuda/launch.h"

namespace sectionflow::gpu {

/// The rows of a tensor [..., C], with a team of threads each: one thread, a warp or a block, by their length.
struct RowTeams {
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
/// team.row_step())`; of a row, the thread has the elements from lane() on in steps of size(). All threads of a team
/// must call its reductions: behind one, all of them have read what they read before it.
template <class Thread>
class RowTeam {
 public:
  SF_HOST_DEVICE RowTeam(Thread& thread, const RowTeams& rows) : thread_(thread), rows_(rows) {}

  SF_HOST_DEVICE int lane() const { return thread_.index() % rows_.team; }
  SF_HOST_DEVICE int size() const { return rows_.team; }
  SF_HOST_DEVICE std::int64_t first_row() const { return thread_.block() * teams() + thread_.index() / rows_.team; }
  SF_HOST_DEVICE std::int64_t row_step() const { return thread_.num_blocks() * teams(); }

  /// The sum of term(i), a float, in double, over i in [0, length), in an order that the shape alone decides.
  template <class Term>
  SF_HOST_DEVICE double sum(const Term& term) {
    double sum = 0;
    for_each(term, [&sum](std::int64_t, float value) { sum += static_cast<double>(value); });
    return reduce(sum, Sum());
  }
  /// The largest element of a row, passing over NaN; -infinity where there is none.
  template <class T>
  SF_HOST_DEVICE float max(const T* row) {
    float largest = -std::numeric_limits<float>::infinity();
    for_each([=](std::int64_t i) { return static_cast<float>(row[i]); },
             [&largest](std::int64_t, float value) { largest = value > largest ? value : largest; });
    return reduce(largest, Larger());
  }
  /// y[i] = function(i), a float, for i in [0, length). y may lie over what the function reads of element i.
  template <class T, class Function>
  SF_HOST_DEVICE void map(T* y, const Function& function) {
    for_each(function, [=](std::int64_t i, float value) { y[i] = static_cast<T>(value); });
  }

 private:
  /// use(i, value(i)) for the thread's i in turn; some values are computed before the first of them is used, so that
  /// their loads are on the way together.
  template <class Value, class Use>
  SF_HOST_DEVICE void for_each(const Value& value, const Use& use) const {
    constexpr int kAtATime = 4;
    const std::int64_t step = size();
    std::int64_t i = lane();
    for (; i + (kAtATime - 1) * step < rows_.length; i += kAtATime * step) {
      float values[kAtATime];
      for (int ahead = 0; ahead < kAtATime; ++ahead) values[ahead] = value(i + ahead * step);
      for (int ahead = 0; ahead < kAtATime; ++ahead) use(i + ahead * step, values[ahead]);
    }
    for (; i < rows_.length; i += step) use(i, value(i));
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
