#include "base/random.h"

#include <cmath>
#include <numbers>

#include "base/philox.h"

namespace sectionflow {

namespace {

template <int kBlocks>
void fill_words(const RandomAddress& address, std::uint64_t first_block, std::uint32_t* words) {
  philox::Counters<kBlocks> counters = philox::counters_of<kBlocks>(address, first_block);
  philox::ten_rounds(counters, address.seed);
  for (int i = 0; i < kBlocks; ++i) {
    words[4 * i] = counters.c0[i];
    words[4 * i + 1] = counters.c1[i];
    words[4 * i + 2] = counters.c2[i];
    words[4 * i + 3] = counters.c3[i];
  }
}

}  // namespace

std::array<std::uint32_t, 4> random_words(const RandomAddress& address, std::uint64_t block) {
  std::array<std::uint32_t, 4> words{};
  fill_words<1>(address, block, words.data());
  return words;
}

void fill_random_words(const RandomAddress& address, std::uint64_t first_block, std::int64_t num_blocks,
                       std::uint32_t* words) {
  constexpr std::int64_t kTogether = 16;
  std::int64_t done = 0;
  for (; done + kTogether <= num_blocks; done += kTogether) {
    fill_words<kTogether>(address, first_block + static_cast<std::uint64_t>(done), words + 4 * done);
  }
  for (; done < num_blocks; ++done) {
    fill_words<1>(address, first_block + static_cast<std::uint64_t>(done), words + 4 * done);
  }
}

std::array<float, 2> normals_from_words(std::uint32_t word_a, std::uint32_t word_b) {
  // In double and from (0, 1], so that the logarithm never sees zero and the tails reach 6.6 sigma.
  const double radius = std::sqrt(-2.0 * std::log((static_cast<double>(word_a) + 1.0) * 0x1p-32));
  const double angle = 2.0 * std::numbers::pi * static_cast<double>(word_b) * 0x1p-32;
  return {static_cast<float>(radius * std::cos(angle)), static_cast<float>(radius * std::sin(angle))};
}

}  // namespace sectionflow
