#include "data/permutation.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/random.h"

namespace sectionflow {
namespace {

// Fisher and Yates. Source: Durstenfeld 1964, Algorithm 235.
std::vector<std::uint32_t> permutation(std::int64_t size, const RandomAddress& address) {
  std::vector<std::uint32_t> order(static_cast<std::size_t>(size));
  std::iota(order.begin(), order.end(), 0U);
  std::array<std::uint32_t, 4> words{};
  for (std::size_t drawn = 0; drawn + 1 < order.size(); ++drawn) {
    if (drawn % 4 == 0) words = random_words(address, drawn / 4);
    const std::size_t last = order.size() - 1 - drawn;
    const auto other = static_cast<std::size_t>(below_from_word(words[drawn % 4], static_cast<std::int64_t>(last) + 1));
    std::swap(order[last], order[other]);
  }
  return order;
}

}  // namespace

std::vector<std::uint32_t> epoch_order(std::int64_t size, std::uint64_t seed, std::int64_t epoch) {
  return permutation(size, {seed, kShuffleNode, static_cast<std::uint32_t>(epoch)});
}

SplitNumbers split_numbers(std::int64_t size, double share, std::uint64_t seed) {
  const auto held = std::clamp<std::int64_t>(std::llround(share * static_cast<double>(size)), 1, size - 1);
  const std::vector<std::uint32_t> order = permutation(size, {seed, kSplitNode, 0});
  const auto border = order.begin() + held;
  SplitNumbers numbers{.train = {border, order.end()}, .validation = {order.begin(), border}};
  std::sort(numbers.train.begin(), numbers.train.end());
  std::sort(numbers.validation.begin(), numbers.validation.end());
  return numbers;
}

}  // namespace sectionflow
