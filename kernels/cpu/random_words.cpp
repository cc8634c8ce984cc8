#include "kernels/cpu/random_words.h"

#include <cstring>

#include "base/random_formulas.h"
#include "device/instruction_set.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace sectionflow {
namespace {

#if defined(__x86_64__)

/// A word of eight blocks, each in the lower half of its lane; the upper halves mean nothing.
typedef std::uint64_t WordOfBlocks __attribute__((vector_size(64)));
constexpr std::int64_t kBlocks = 8;

/// philox::ten_rounds of `kSets` times eight blocks at a time: each operation of a set waits for the one before. By
/// hand, since compilers take a product of two halves for one of whole lanes, which is three times the work. Gives how
/// many blocks are done, from the first on.
template <int kSets>
[[gnu::target("avx512f")]] std::int64_t fill_by_eight(const RandomAddress& address, std::uint64_t first_block,
                                                      std::int64_t num_blocks, std::uint32_t* words) {
  constexpr __mmask8 kAll = 0xFF;  // without a mask, g++ 12 warns in its own header
  const __m512i multiplier0 = _mm512_set1_epi64(philox::kMultiplier0);
  const __m512i multiplier1 = _mm512_set1_epi64(philox::kMultiplier1);
  std::int64_t done = 0;
  for (; done + kSets * kBlocks <= num_blocks; done += kSets * kBlocks) {
    WordOfBlocks c0[kSets], c1[kSets], c2[kSets], c3[kSets];
    for (int set = 0; set < kSets; ++set) {
      const std::uint64_t first = first_block + static_cast<std::uint64_t>(done + set * kBlocks);
      c0[set] = first + WordOfBlocks{0, 1, 2, 3, 4, 5, 6, 7};
      c1[set] = c0[set] >> 32;
      c2[set] = WordOfBlocks{} + address.node;
      c3[set] = WordOfBlocks{} + address.step;
    }
    std::uint64_t key0 = address.seed, key1 = address.seed >> 32;
    for (int round = 0; round < 10; ++round) {
      for (int set = 0; set < kSets; ++set) {
        const auto product0 = reinterpret_cast<WordOfBlocks>(
            _mm512_maskz_mul_epu32(kAll, reinterpret_cast<__m512i>(c0[set]), multiplier0));
        const auto product1 = reinterpret_cast<WordOfBlocks>(
            _mm512_maskz_mul_epu32(kAll, reinterpret_cast<__m512i>(c2[set]), multiplier1));
        c0[set] = (product1 >> 32) ^ c1[set] ^ key0;
        c1[set] = product1;
        c2[set] = (product0 >> 32) ^ c3[set] ^ key1;
        c3[set] = product0;
      }
      key0 += philox::kWeyl0;
      key1 += philox::kWeyl1;
    }
    for (int set = 0; set < kSets; ++set) {
      const WordOfBlocks low = (c0[set] & 0xFFFFFFFFU) | (c1[set] << 32),
                         high = (c2[set] & 0xFFFFFFFFU) | (c3[set] << 32);
      const WordOfBlocks first = __builtin_shufflevector(low, high, 0, 8, 1, 9, 2, 10, 3, 11);
      const WordOfBlocks second = __builtin_shufflevector(low, high, 4, 12, 5, 13, 6, 14, 7, 15);
      std::uint32_t* of_set = words + 4 * (done + set * kBlocks);
      std::memcpy(of_set, &first, sizeof first);
      std::memcpy(of_set + 16, &second, sizeof second);
    }
  }
  return done;
}

#endif

}  // namespace

void fill_random_words_in_vectors(const RandomAddress& address, std::uint64_t first_block, std::int64_t num_blocks,
                                  std::uint32_t* words) {
  std::int64_t done = 0;
#if defined(__x86_64__)
  if (instruction_set() >= InstructionSet::avx512) {
    done = fill_by_eight<4>(address, first_block, num_blocks, words);
    done +=
        fill_by_eight<1>(address, first_block + static_cast<std::uint64_t>(done), num_blocks - done, words + 4 * done);
  }
#endif
  fill_random_words(address, first_block + static_cast<std::uint64_t>(done), num_blocks - done, words + 4 * done);
}

}  // namespace sectionflow
