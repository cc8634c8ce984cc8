#pragma once

#include <cstdint>
#include <limits>

#include "base/shape.h"
#include "kernels/cuda/block_reduce.h"
#include "kernels/cuda/launch.h"

namespace sectionflow::gpu {

/// The rows of a tensor [..., C], a block each.
struct Rows {
  explicit Rows(const Shape& shape) : length(shape[-1]), count(length == 0 ? 0 : shape.num_elements() / length) {}

  /// As many threads as are of use for a row, up to 256.
  LaunchShape launch_shape(std::size_t shared_bytes) const {
    const auto threads = static_cast<int>(std::clamp<std::int64_t>((length + kWarp - 1) / kWarp * kWarp, kWarp, 256));
    return {.blocks = count, .threads = threads, .shared_bytes = shared_bytes};
  }

  std::int64_t length, count;
};

/// The sum of term(i), a double, over i in [0, length), for all threads of the block: in an order that the length and
/// the block's size decide. Takes reduce_bytes<double>() of shared memory from `offset` on; what was read before it may
/// be overwritten behind it.
template <class Thread, class Term>
SF_HOST_DEVICE double row_sum(Thread& thread, std::int64_t length, std::size_t offset, const Term& term) {
  double sum = 0;
  for (std::int64_t i = thread.index(); i < length; i += thread.block_size()) sum += term(i);
  return block_reduce(thread, sum, offset, Sum());
}

/// The largest of a row, passing over NaN; -infinity where there is none. Takes reduce_bytes<float>() of shared memory.
template <class Thread>
SF_HOST_DEVICE float row_max(Thread& thread, const float* row, std::int64_t length, std::size_t offset) {
  float largest = -std::numeric_limits<float>::infinity();
  for (std::int64_t i = thread.index(); i < length; i += thread.block_size())
    largest = row[i] > largest ? row[i] : largest;
  return block_reduce(thread, largest, offset, Larger());
}

}  // namespace sectionflow::gpu
