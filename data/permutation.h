#pragma once

#include <cstdint>
#include <vector>

namespace sectionflow {

/// The most examples that can be shuffled by number: an order keeps 32 bits for each.
inline constexpr std::int64_t kMaxPermuted = std::int64_t{1} << 32;

/// The order of an epoch: a permutation of [0, size) that follows from (seed, epoch) alone, 4 bytes an example. The
/// size is at most kMaxPermuted.
std::vector<std::uint32_t> epoch_order(std::int64_t size, std::uint64_t seed, std::int64_t epoch);

/// Uniform in [0, bound), for bounds of at most 2^32; a number is favoured by at most bound / 2^32.
inline std::int64_t below_from_word(std::uint32_t word, std::int64_t bound) {
  return static_cast<std::int64_t>(std::uint64_t{word} * static_cast<std::uint64_t>(bound) >> 32);
}

/// Random nodes of data, counted down from here, lie outside the ordinals of a graph's random nodes, so that a session
/// of the same seed draws other numbers: orders of examples, then the maps of a pipeline.
inline constexpr std::uint32_t kShuffleNode = 0xFFFFFFFF;

}  // namespace sectionflow
