#pragma once

#include "kernels/cuda/block_reduce.h"

namespace sectionflow::gpu {

/// The result of `combine` over the values of `group` neighbouring threads, given to all of them: `group` is a power of
/// two up to kWarp, or the size of the block. As block_reduce otherwise; all threads of the block must call.
template <class T, class Thread, class Combine>
SF_HOST_DEVICE T group_reduce(Thread& thread, T value, int group, std::size_t offset, const Combine& combine) {
  if (group > kWarp) return block_reduce(thread, value, offset, combine);
  for (int mask = 1; mask < group; mask *= 2) {
    const T other = thread.template shuffle_xor<T>(value, mask);
    const bool lower = (thread.index() & mask) == 0;
    value = lower ? combine(value, other) : combine(other, value);
  }
  return value;
}

/// How many threads share `length` elements: few where there are few, so that none idles.
inline int group_for(std::int64_t length, int block_size) {
  if (length >= 4 * block_size) return block_size;
  int group = 1;
  while (group < kWarp && 4 * group < length) group *= 2;
  return group;
}

}  // namespace sectionflow::gpu
