#include "kernels/cpu/random_words.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace sectionflow {
namespace {

TEST(RandomWordsInVectors, AreThoseOfEachBlock) {
  const RandomAddress address{.seed = 0x299f31d0a4093822, .node = 0xFFFFFFFE, .step = 5};
  // The lower half of the counter overflows on the way.
  constexpr std::uint64_t kFirst[] = {0, 0xFFFFFFFFULL - 9, 0xFFFFFFFFFFFFFFFFULL - 5};
  for (std::uint64_t first : kFirst) {
    for (std::int64_t num_blocks : {0, 1, 7, 8, 9, 16, 31, 100}) {
      std::vector<std::uint32_t> words(static_cast<std::size_t>(4 * num_blocks + 1), 42), wanted = words;
      fill_random_words_in_vectors(address, first, num_blocks, words.data());
      fill_random_words(address, first, num_blocks, wanted.data());
      EXPECT_EQ(words, wanted) << num_blocks << " from " << first;
    }
  }
}

}  // namespace
}  // namespace sectionflow
