#include "base/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

namespace sectionflow {
namespace {

using Words = std::array<std::uint32_t, 4>;

// Known answers of the authors' Random123 library (kat_vectors, philox4x32 of 10 rounds).
TEST(Random, WordsAreThoseOfPhilox) {
  EXPECT_EQ(random_words({}, 0), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(random_words({.seed = ~0ULL, .node = ~0U, .step = ~0U}, ~0ULL),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  // The digits of pi: counter 243f6a88 85a308d3 13198a2e 03707344, key a4093822 299f31d0.
  EXPECT_EQ(random_words({.seed = 0x299f31d0a4093822, .node = 0x13198a2e, .step = 0x03707344}, 0x85a308d3243f6a88),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Random, EveryPartOfTheAddressChangesTheWords) {
  const std::set<Words> words = {
      random_words({}, 0),          random_words({.seed = 1}, 0), random_words({.seed = 1ULL << 32}, 0),
      random_words({.node = 1}, 0), random_words({.step = 1}, 0), random_words({}, 1),
      random_words({}, 1ULL << 32)};
  EXPECT_EQ(words.size(), 7U);
}

TEST(Random, ManyWordsAreThoseOfTheirBlocks) {
  const RandomAddress address{.seed = 0x299f31d0a4093822, .node = 3, .step = 5};
  for (std::int64_t num_blocks : {0, 1, 15, 16, 17, 100}) {
    // The lower half of the counter overflows on the way.
    const std::uint64_t first = 0xFFFFFFFFULL - 7;
    std::vector<std::uint32_t> words(static_cast<std::size_t>(4 * num_blocks + 1), 42);
    fill_random_words(address, first, num_blocks, words.data());
    for (std::int64_t block = 0; block < num_blocks; ++block) {
      const Words wanted = random_words(address, first + static_cast<std::uint64_t>(block));
      EXPECT_TRUE(std::equal(wanted.begin(), wanted.end(), words.begin() + 4 * block)) << block;
    }
    EXPECT_EQ(words.back(), 42U);
  }
}

TEST(Random, UniformLiesInZeroToOneWithoutOne) {
  EXPECT_EQ(uniform_from_word(0), 0.0F);
  EXPECT_LT(uniform_from_word(~0U), 1.0F);
  double sum = 0, sum_squares = 0;
  constexpr int kBlocks = 25000;
  for (int block = 0; block < kBlocks; ++block) {
    for (std::uint32_t word : random_words({.seed = 5}, static_cast<std::uint64_t>(block))) {
      const double u = uniform_from_word(word);
      sum += u;
      sum_squares += u * u;
    }
  }
  // Standard errors of 100,000 samples: 0.0009 of the mean, 0.00095 of the mean square; five of each.
  EXPECT_NEAR(sum / (4 * kBlocks), 0.5, 0.0046);
  EXPECT_NEAR(sum_squares / (4 * kBlocks), 1.0 / 3, 0.0048);
}

TEST(Random, NormalsHaveTheMomentsOfANormal) {
  double sums[5] = {};
  double sum_of_products = 0;
  constexpr int kBlocks = 50000;
  for (int block = 0; block < kBlocks; ++block) {
    const Words words = random_words({.seed = 9}, static_cast<std::uint64_t>(block));
    for (int pair = 0; pair < 2; ++pair) {
      const auto [a, b] = normals_from_words(words[2 * pair], words[2 * pair + 1]);
      for (double x : {a, b}) {
        for (int power = 1; power <= 4; ++power) sums[power] += std::pow(x, power);
      }
      sum_of_products += double{a} * b;
    }
  }
  constexpr double kSamples = 4.0 * kBlocks;
  const double standard_error = 1 / std::sqrt(kSamples);
  EXPECT_NEAR(sums[1] / kSamples, 0, 5 * standard_error);
  EXPECT_NEAR(sums[2] / kSamples, 1, 5 * std::sqrt(2.0) * standard_error);
  EXPECT_NEAR(sums[3] / kSamples, 0, 5 * std::sqrt(15.0) * standard_error);
  EXPECT_NEAR(sums[4] / kSamples, 3, 5 * std::sqrt(96.0) * standard_error);
  EXPECT_NEAR(sum_of_products / (kSamples / 2), 0, 5 * std::sqrt(2.0) * standard_error);
}

TEST(Random, NormalsOfTheExtremeWordsAreFinite) {
  for (std::uint32_t a : {0U, 1U, ~0U}) {
    for (std::uint32_t b : {0U, 1U << 30, ~0U}) {
      const auto [x, y] = normals_from_words(a, b);
      EXPECT_TRUE(std::isfinite(x) && std::isfinite(y)) << a << " " << b;
      EXPECT_LT(std::hypot(x, y), 6.7F);
    }
  }
}

}  // namespace
}  // namespace sectionflow
