#pragma once

#include <cstddef>
#include <cstdint>

#include "base/host_device.h"
#include "kernels/cuda/launch.h"

namespace sectionflow::gpu {

/// Bytes of shared memory that block_reduce of a T takes.
template <class T>
constexpr std::size_t reduce_bytes() {
  return sizeof(T) * kWarp;
}

/// The result of `combine`, a commutative and associative-up-to-rounding function, over the values of a warp's threads,
/// given to all of them: always in the same order, so always the same bits. All threads of the warp must call.
template <class T, class Thread, class Combine>
SF_HOST_DEVICE T warp_reduce(Thread& thread, T value, const Combine& combine) {
  // In each exchange both lanes combine the same two values; the lower lane's goes first, so that both get the same
  // bits.
  for (int mask = 1; mask < kWarp; mask *= 2) {
    const T other = thread.template shuffle_xor<T>(value, mask);
    const bool lower = (thread.index() & mask) == 0;
    value = lower ? combine(value, other) : combine(other, value);
  }
  return value;
}

/// The same for all threads of a block. All threads must call; the shared memory from `offset` on must not be in use,
/// and may be used again only behind a barrier.
template <class T, class Thread, class Combine>
SF_HOST_DEVICE T block_reduce(Thread& thread, T value, std::size_t offset, const Combine& combine) {
  value = warp_reduce(thread, value, combine);
  const int warps = thread.block_size() / kWarp;
  auto of_warps = thread.template shared<T>(offset, kWarp);
  if (thread.index() % kWarp == 0) of_warps[thread.index() / kWarp] = value;
  thread.barrier();
  T result = of_warps[0];
  for (int warp = 1; warp < warps; ++warp) {
    const T other = of_warps[warp];
    result = combine(result, other);
  }
  return result;
}

struct Sum {
  template <class T>
  SF_HOST_DEVICE T operator()(T a, T b) const {
    return a + b;
  }
};

/// The larger of two, passing over NaN in the second.
struct Larger {
  template <class T>
  SF_HOST_DEVICE T operator()(T a, T b) const {
    return b > a ? b : a;
  }
};

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

/// The sum of term(i), a double, over i in [0, length), for all threads of the block: in an order that the length and
/// the block's size decide. Takes reduce_bytes<double>() of shared memory from `offset` on; what was read before it may
/// be overwritten behind it.
template <class Thread, class Term>
SF_HOST_DEVICE double row_sum(Thread& thread, std::int64_t length, std::size_t offset, const Term& term) {
  double sum = 0;
  for (std::int64_t i = thread.index(); i < length; i += thread.block_size()) sum += term(i);
  return block_reduce(thread, sum, offset, Sum());
}

}  // namespace sectionflow::gpu
