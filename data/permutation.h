#pragma once

#include <cstdint>
#include <vector>

namespace sectionflow {

/// The most examples that can be shuffled by number: an order keeps 32 bits for each.
inline constexpr std::int64_t kMaxPermuted = std::int64_t{1} << 32;

/// The order of an epoch: a permutation of [0, size) that follows from (seed, epoch) alone, 4 bytes an example. The
/// size is at most kMaxPermuted.
std::vector<std::uint32_t> epoch_order(std::int64_t size, std::uint64_t seed, std::int64_t epoch);

/// The numbers of the examples of both parts of a split, rising.
struct SplitNumbers {
  std::vector<std::uint32_t> train, validation;
};
/// Draws `share`, above 0 and below 1, of 2 to kMaxPermuted examples for validation: the nearest number, at least one
/// and not all. Follows from its arguments alone; other words are drawn than for the orders of epochs.
SplitNumbers split_numbers(std::int64_t size, double share, std::uint64_t seed);

/// Uniform in [0, bound), for bounds of at most 2^32; a number is favoured by at most bound / 2^32.
inline std::int64_t below_from_word(std::uint32_t word, std::int64_t bound) {
  return static_cast<std::int64_t>(std::uint64_t{word} * static_cast<std::uint64_t>(bound) >> 32);
}

/// Random nodes of data, counted down from here, lie outside the ordinals of a graph's random nodes, so that a session
/// of the same seed draws other numbers: orders of examples, then the maps of a pipeline. A split draws from the other
/// end of half of them, which no number of maps reaches.
inline constexpr std::uint32_t kShuffleNode = 0xFFFFFFFF;
inline constexpr std::uint32_t kSplitNode = 0x80000000;

}  // namespace sectionflow
