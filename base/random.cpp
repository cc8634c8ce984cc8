#include "base/random.h"

#include <cmath>
#include <numbers>

namespace sectionflow {

std::array<std::uint32_t, 4> random_words(const RandomAddress& address, std::uint64_t block) {
  constexpr std::uint32_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
  constexpr std::uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
  std::array<std::uint32_t, 4> counter = {static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32),
                                          address.node, address.step};
  std::uint32_t key0 = static_cast<std::uint32_t>(address.seed);
  std::uint32_t key1 = static_cast<std::uint32_t>(address.seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t{kMultiplier0} * counter[0];
    const std::uint64_t product1 = std::uint64_t{kMultiplier1} * counter[2];
    counter = {static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ key0, static_cast<std::uint32_t>(product1),
               static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ key1, static_cast<std::uint32_t>(product0)};
    key0 += kWeyl0;
    key1 += kWeyl1;
  }
  return counter;
}

std::array<float, 2> normals_from_words(std::uint32_t word_a, std::uint32_t word_b) {
  // In double and from (0, 1], so that the logarithm never sees zero and the tails reach 6.6 sigma.
  const double radius = std::sqrt(-2.0 * std::log((static_cast<double>(word_a) + 1.0) * 0x1p-32));
  const double angle = 2.0 * std::numbers::pi * static_cast<double>(word_b) * 0x1p-32;
  return {static_cast<float>(radius * std::cos(angle)), static_cast<float>(radius * std::sin(angle))};
}

}  // namespace sectionflow
