#pragma once

#include <cmath>
#include <cstdint>

#include "base/host_device.h"
#include "base/random.h"
#include "base/random_formulas.h"
#include "kernels/vector_math.h"

/// Random numbers, shared by every device. Four elements share a block of four random words: element e is made of block
/// e / 4.
namespace sectionflow::formulas {

inline constexpr std::int64_t kRandomBlock = 4;
struct Four {
  float values[kRandomBlock];
};

/// A number of each word by itself.
template <class OfWord>
struct DrawOfWords {
  SF_HOST_DEVICE Four operator()(const RandomAddress& address, std::uint64_t block) const {
    auto words = philox::counters_of<1>(address, block);
    philox::ten_rounds(words, address.seed);
    return {{OfWord()(words.c0[0]), OfWord()(words.c1[0]), OfWord()(words.c2[0]), OfWord()(words.c3[0])}};
  }
};

struct UniformOfWord {
  SF_HOST_DEVICE float operator()(std::uint32_t word) const { return uniform_from_word(word); }
};

/// -ln(-ln u) with u = 1 - v: the largest numbers come of the smallest v, which have all their digits.
struct GumbelOfWord {
  SF_HOST_DEVICE float operator()(std::uint32_t word) const {
    constexpr float kMost = 1.0F - 0x1p-24F;  // what rounds to 1 would give -infinity
    // Words below 2^31 are converted in vectors by instructions that know a sign.
    const float v = static_cast<float>(static_cast<std::int32_t>(word >> 1)) * 0x1p-31F + 0x1p-33F;
    return -vector_math::log(-vector_math::log1p(-vector_math::select(v < kMost, v, kMost)));
  }
};

/// The uniform number of 53 bits, in [0, 1), that decides draw `draw` of a tensor of draws: a block of its own.
SF_HOST_DEVICE inline double uniform_of_draw(const RandomAddress& address, std::uint64_t draw) {
  auto words = philox::counters_of<1>(address, draw);
  philox::ten_rounds(words, address.seed);
  return (static_cast<double>(words.c0[0] >> 5) * 0x1p26 + static_cast<double>(words.c1[0] >> 6)) * 0x1p-53;
}

struct DrawNormals {
  SF_HOST_DEVICE Four operator()(const RandomAddress& address, std::uint64_t block) const {
    auto words = philox::counters_of<1>(address, block);
    philox::ten_rounds(words, address.seed);
    const box_muller::Two low = box_muller::normals(words.c0[0], words.c1[0]);
    const box_muller::Two high = box_muller::normals(words.c2[0], words.c3[0]);
    return {{low.first, low.second, high.first, high.second}};
  }
};

/// Attempt k of block b reads block b + 2^48 k, which no tensor reaches, and an element takes the number of its own
/// place in the first attempt that has a fitting one there: still a function of address and element alone.
struct DrawTruncatedNormals {
  static constexpr float kLimit = 2;  // standard deviations
  static constexpr int kAttemptBits = 48;

  SF_HOST_DEVICE static bool fits(float x) { return x <= kLimit && x >= -kLimit; }
  SF_HOST_DEVICE static bool fit(const Four& four) {
    return fits(four.values[0]) && fits(four.values[1]) && fits(four.values[2]) && fits(four.values[3]);
  }
  SF_HOST_DEVICE Four operator()(const RandomAddress& address, std::uint64_t block) const {
    Four result = DrawNormals()(address, block);
    for (std::uint64_t attempt = 1; !fit(result); ++attempt) {
      const Four drawn = DrawNormals()(address, block + (attempt << kAttemptBits));
      for (int i = 0; i < kRandomBlock; ++i) {
        if (!fits(result.values[i])) result.values[i] = drawn.values[i];
      }
    }
    return result;
  }
};

/// What becomes of an element whose random word is `word`: 0, or more than it was.
struct Drop {
  std::uint32_t threshold;  // words below it drop their element
  float scale;              // of what is kept

  explicit Drop(float rate)
      : threshold(static_cast<std::uint32_t>(std::llround(static_cast<double>(rate) * 0x1p32))),
        scale(static_cast<float>(1.0 / (1.0 - static_cast<double>(rate)))) {}

  SF_HOST_DEVICE float operator()(float x, std::uint32_t word) const {
    return vector_math::select(word >= threshold, x * scale, 0.0F);
  }
};

}  // namespace sectionflow::formulas
