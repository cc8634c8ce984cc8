#include "base/random.h"

#include "base/random_formulas.h"

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

std::uint64_t seed_of_micro_batch(std::uint64_t seed, std::uint64_t micro_batch) {
  if (micro_batch == 0) return seed;
  // A node that no graph has, in a block that no tensor reaches.
  constexpr std::uint32_t kNoNode = 0xFFFFFFFF;
  const auto words = random_words({seed, kNoNode, kNoNode}, ~micro_batch);
  return std::uint64_t{words[0]} << 32 | words[1];
}

std::array<float, 2> normals_from_words(std::uint32_t word_a, std::uint32_t word_b) {
  const box_muller::Two normals = box_muller::normals(word_a, word_b);
  return {normals.first, normals.second};
}

}  // namespace sectionflow
