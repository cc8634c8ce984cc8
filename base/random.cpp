#include "base/random.h"

#include <cmath>
#include <numbers>

namespace sectionflow {

namespace {

/// Philox4x32-10 on `kBlocks` counters side by side: one block a lane.
template <int kBlocks>
void fill_words(const RandomAddress& address, std::uint64_t first_block, std::uint32_t* words) {
  constexpr std::uint32_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
  constexpr std::uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
  std::uint32_t c0[kBlocks], c1[kBlocks], c2[kBlocks], c3[kBlocks];
  for (int i = 0; i < kBlocks; ++i) {
    const std::uint64_t block = first_block + static_cast<std::uint64_t>(i);
    c0[i] = static_cast<std::uint32_t>(block);
    c1[i] = static_cast<std::uint32_t>(block >> 32);
    c2[i] = address.node;
    c3[i] = address.step;
  }
  std::uint32_t key0 = static_cast<std::uint32_t>(address.seed);
  std::uint32_t key1 = static_cast<std::uint32_t>(address.seed >> 32);
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
  for (int i = 0; i < kBlocks; ++i) {
    words[4 * i] = c0[i];
    words[4 * i + 1] = c1[i];
    words[4 * i + 2] = c2[i];
    words[4 * i + 3] = c3[i];
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
