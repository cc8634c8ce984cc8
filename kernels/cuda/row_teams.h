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

  /// The sum of term(i), in double, over i in [0, length), in an order that the shape alone decides.
  template <class Term>
  SF_HOST_DEVICE double sum(const Term& term) {
    double sum = 0;
    for (std::int64_t i = lane(); i < rows_.length; i += size()) sum += static_cast<double>(term(i));
    return reduce(sum, Sum());
  }
  /// The largest element of a row, passing over NaN; -infinity where there is none.
  SF_HOST_DEVICE float max(const float* row) {
    float largest = -std::numeric_limits<float>::infinity();
    for (std::int64_t i = lane(); i < rows_.length; i += size()) largest = row[i] > largest ? row[i] : largest;
    return reduce(largest, Larger());
  }

 private:
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
