#pragma once

#include <array>
#include <cstdint>

#include "base/export.h"
#include "base/host_device.h"

namespace SF_API sectionflow {

/// Where random numbers come from: the same address gives the same numbers, on every thread, in every order.
struct RandomAddress {
  std::uint64_t seed = 0;  ///< of the session
  std::uint32_t node = 0;  ///< ordinal among the graph's random nodes
  std::uint32_t step = 0;  ///< completed training cycles
};

/// What of an address an execution decides, as kernels of an asynchronous device read it from device memory.
struct RandomState {
  std::uint64_t seed = 0;
  std::uint64_t cycle = 0;  ///< RandomAddress::step is its lower half
};

/// Four independent uniform 32-bit words for block `block` of an address; element e of a tensor lies in block e / 4.
/// Source: Salmon et al. 2011, Parallel random numbers: as easy as 1, 2, 3 (Philox4x32-10).
std::array<std::uint32_t, 4> random_words(const RandomAddress& address, std::uint64_t block);

/// The words of `num_blocks` blocks from `first_block` on, four a block, in their order: the fast way to many.
void fill_random_words(const RandomAddress& address, std::uint64_t first_block, std::int64_t num_blocks,
                       std::uint32_t* words);

/// The seed of a session's random numbers in micro-batch `micro_batch` of an update: of the first its own, so that an
/// update of one micro-batch draws what it always drew; of others a word of the session's.
std::uint64_t seed_of_micro_batch(std::uint64_t seed, std::uint64_t micro_batch);

/// Uniform in [0, 1) with 24 random bits.
SF_HOST_DEVICE inline float uniform_from_word(std::uint32_t word) {
  return static_cast<float>(word >> 8) * 0x1p-24F;
}

/// Two independent standard normal numbers from two words (Box and Muller 1958).
std::array<float, 2> normals_from_words(std::uint32_t word_a, std::uint32_t word_b);

}  // namespace sectionflow
