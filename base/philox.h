#pragma once

#include <cstdint>

#include "base/host_device.h"
#include "base/random.h"

namespace sectionflow::philox {

/// The state of `kBlocks` counters side by side: one block of four words a lane.
template <int kBlocks>
struct Counters {
  std::uint32_t c0[kBlocks], c1[kBlocks], c2[kBlocks], c3[kBlocks];
};

/// Turns counters into their words: block i's four words are c0[i] to c3[i]. The same bits on host and device.
/// Source: Salmon et al. 2011, Parallel random numbers: as easy as 1, 2, 3 (Philox4x32-10).
template <int kBlocks>
SF_HOST_DEVICE inline void ten_rounds(Counters<kBlocks>& counters, std::uint64_t seed) {
  constexpr std::uint32_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
  constexpr std::uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
  auto& [c0, c1, c2, c3] = counters;
  auto key0 = static_cast<std::uint32_t>(seed);
  auto key1 = static_cast<std::uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < kBlocks; ++i) {
      const std::uint64_t product0 = std::uint64_t{kMultiplier0} * c0[i];
      const std::uint64_t product1 = std::uint64_t{kMultiplier1} * c2[i];
      c0[i] = static_cast<std::uint32_t>(product1 >> 32) ^ c1[i] ^ key0;
      c1[i] = static_cast<std::uint32_t>(product1);
      c2[i] = static_cast<std::uint32_t>(product0 >> 32) ^ c3[i] ^ key1;
      c3[i] = static_cast<std::uint32_t>(product0);
    }
    key0 += kWeyl0;
    key1 += kWeyl1;
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
