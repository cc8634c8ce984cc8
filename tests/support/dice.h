#pragma once

#include <cstdint>
#include <random>

namespace sectionflow::testing {

/// Draws without the distributions of the standard library, which differ from one library to the next.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : words_(seed * 977 + 5) {}
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(words_() % static_cast<std::uint64_t>(high - low + 1));
  }
  bool chance(int percent) { return between(1, 100) <= percent; }

 private:
  std::mt19937_64 words_;
};

}  // namespace sectionflow::testing
