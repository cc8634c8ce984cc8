#pragma once

#include <algorithm>
#include <cstdint>

#include "device/parallel.h"

namespace sectionflow {

/// Calls `body(c, sum)` for each channel, where `sum` is the double sum of term(block, c) over the blocks in their
/// order. `body` may run on any thread of the team.
template <class Term, class Body>
void combine_blocks(std::int64_t num_blocks, std::int64_t channels, const Term& term, const Body& body) {
  // Channels side by side: the terms of a block are neighbours in memory.
  constexpr std::int64_t kTogether = 64;
  parallel_for(channels, kTogether, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t first = begin; first < end; first += kTogether) {
      const std::int64_t width = std::min(kTogether, end - first);
      double sums[kTogether] = {};
      for (std::int64_t block = 0; block < num_blocks; ++block) {
#pragma omp simd
        for (std::int64_t c = 0; c < width; ++c) sums[c] += term(block, first + c);
      }
      for (std::int64_t c = 0; c < width; ++c) body(first + c, sums[c]);
    }
  });
}

}  // namespace sectionflow
