#pragma once

#include <cstddef>

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

}  // namespace sectionflow::gpu
