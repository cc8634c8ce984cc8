#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

#include "base/host_device.h"
#include "base/random.h"

// What random.h promises, for host and device: the same bits on both.

namespace sectionflow::philox {

inline constexpr std::uint32_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
/// What the halves of the key grow by from round to round.
inline constexpr std::uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;

/// The state of `kBlocks` counters side by side: one block of four words a lane.
template <int kBlocks>
struct Counters {
  std::uint32_t c0[kBlocks], c1[kBlocks], c2[kBlocks], c3[kBlocks];
};

/// Turns counters into their words: block i's four words are c0[i] to c3[i]. The same bits on host and device.
/// Source: Salmon et al. 2011, Parallel random numbers: as easy as 1, 2, 3 (Philox4x32-10).
template <int kBlocks>
SF_HOST_DEVICE inline void ten_rounds(Counters<kBlocks>& counters, std::uint64_t seed) {
  for (int i = 0; i < kBlocks; ++i) {
    std::uint32_t c0 = counters.c0[i], c1 = counters.c1[i], c2 = counters.c2[i], c3 = counters.c3[i];
    auto key0 = static_cast<std::uint32_t>(seed), key1 = static_cast<std::uint32_t>(seed >> 32);
    for (int round = 0; round < 10; ++round) {
      const std::uint64_t product0 = std::uint64_t{kMultiplier0} * c0;
      const std::uint64_t product1 = std::uint64_t{kMultiplier1} * c2;
      c0 = static_cast<std::uint32_t>(product1 >> 32) ^ c1 ^ key0;
      c1 = static_cast<std::uint32_t>(product1);
      c2 = static_cast<std::uint32_t>(product0 >> 32) ^ c3 ^ key1;
      c3 = static_cast<std::uint32_t>(product0);
      key0 += kWeyl0;
      key1 += kWeyl1;
    }
    counters.c0[i] = c0;
    counters.c1[i] = c1;
    counters.c2[i] = c2;
    counters.c3[i] = c3;
  }
}

/// The counters of `kBlocks` blocks of an address, from `first_block` on.
template <int kBlocks>
SF_HOST_DEVICE inline Counters<kBlocks> counters_of(const RandomAddress& address, std::uint64_t first_block) {
  Counters<kBlocks> counters;
  for (int i = 0; i < kBlocks; ++i) {
    const std::uint64_t block = first_block + static_cast<std::uint64_t>(i);
    counters.c0[i] = static_cast<std::uint32_t>(block);
    counters.c1[i] = static_cast<std::uint32_t>(block >> 32);
    counters.c2[i] = address.node;
    counters.c3[i] = address.step;
  }
  return counters;
}

}  // namespace sectionflow::philox

namespace sectionflow::box_muller {

/// Two independent standard normal numbers.
struct Two {
  float first, second;
};

/// From two uniform words, for host and device. Source: Box and Muller 1958.
SF_HOST_DEVICE inline Two normals(std::uint32_t word_a, std::uint32_t word_b) {
  // In double and from (0, 1], so that the logarithm never sees zero and the tails reach 6.6 sigma.
  const double radius = std::sqrt(-2.0 * std::log((static_cast<double>(word_a) + 1.0) * 0x1p-32));
  const double angle = 2.0 * std::numbers::pi * static_cast<double>(word_b) * 0x1p-32;
  return {static_cast<float>(radius * std::cos(angle)), static_cast<float>(radius * std::sin(angle))};
}

}  // namespace sectionflow::box_muller
