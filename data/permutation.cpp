#include "data/permutation.h"

#include <array>
#include <numeric>
#include <utility>

#include "base/random.h"

namespace sectionflow {

// Fisher and Yates. Source: Durstenfeld 1964, Algorithm 235.
std::vector<std::uint32_t> epoch_order(std::int64_t size, std::uint64_t seed, std::int64_t epoch) {
  std::vector<std::uint32_t> order(static_cast<std::size_t>(size));
  std::iota(order.begin(), order.end(), 0U);
  const RandomAddress address{seed, kShuffleNode, static_cast<std::uint32_t>(epoch)};
  std::array<std::uint32_t, 4> words{};
  for (std::size_t drawn = 0; drawn + 1 < order.size(); ++drawn) {
    if (drawn % 4 == 0) words = random_words(address, drawn / 4);
    const std::size_t last = order.size() - 1 - drawn;
    const auto other = static_cast<std::size_t>(below_from_word(words[drawn % 4], static_cast<std::int64_t>(last) + 1));
    std::swap(order[last], order[other]);
  }
  return order;
}

}  // namespace sectionflow
