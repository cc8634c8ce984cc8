#include "data/dataset_options.h"

#include <algorithm>
#include <array>

#include "data/permutation.h"

namespace sectionflow {
namespace {

// 2^26 words an example leave 2^40 examples an epoch.
constexpr std::uint64_t kBlocksAnExample = std::uint64_t{1} << 24;

}  // namespace

std::uint64_t MapContext::first_block(std::uint64_t num_words) const {
  SF_CHECK(num_words <= 4 * kBlocksAnExample, ArgumentError, "MapContext: asked for ", num_words,
           " random words of an example; there are 2^26");
  return static_cast<std::uint64_t>(index) * kBlocksAnExample;
}

std::uint32_t MapContext::word(std::uint64_t number) const {
  return random_words(address_, first_block(number + 1) + number / 4)[number % 4];
}

std::int64_t MapContext::below(std::int64_t bound, std::uint64_t number) const {
  SF_CHECK(bound >= 1 && bound <= std::int64_t{1} << 32, ArgumentError, "MapContext::below: the bound is ", bound,
           "; wanted 1 to 2^32");
  return below_from_word(word(number), bound);
}

void MapContext::fill(std::span<std::uint32_t> words) const {
  const std::uint64_t first = first_block(words.size());
  const std::size_t whole = words.size() / 4;
  fill_random_words(address_, first, static_cast<std::int64_t>(whole), words.data());
  if (words.size() % 4 == 0) return;
  const std::array<std::uint32_t, 4> last = random_words(address_, first + whole);
  std::copy_n(last.begin(), words.size() % 4, words.begin() + static_cast<std::ptrdiff_t>(4 * whole));
}

}  // namespace sectionflow
