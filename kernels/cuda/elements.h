#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "base/dtype.h"
#include "base/error.h"
#include "base/host_device.h"
#include "kernels/cuda/unroll.h"
#include "kernels/stored_element.h"

namespace sectionflow::gpu {

/// The Words that lie at `place`, for one instruction each. A GPU takes them at multiples of their alignment alone; a
/// kernel that is emulated on the host throws InternalError for others.
template <class Word, class Element>
SF_HOST_DEVICE auto* aligned(Element* place) {
#if !defined(__CUDACC__)
  SF_CHECK(reinterpret_cast<std::uintptr_t>(place) % alignof(Word) == 0, InternalError, "a kernel takes ", sizeof(Word),
           " bytes at an address that is no multiple of ", alignof(Word));
#endif
  using Same = std::conditional_t<std::is_const_v<Element>, const Word, Word>;
  return reinterpret_cast<Same*>(place);
}

/// Neighbouring elements that a thread loads and stores with one instruction, or one for each 16 bytes.
template <class T, int kWidth>
struct alignas(sizeof(T) * kWidth) Pack {
  T values[kWidth];
};

/// How many elements of each of these types a thread takes, so that the largest fill 16 bytes.
template <class... T>
constexpr int pack_width() {
  return 16 / static_cast<int>(std::max({sizeof(T)...}));
}

/// The `kWidth` elements from `place` on, a multiple of their bytes.
template <int kWidth, class T>
SF_HOST_DEVICE Pack<T, kWidth> load_pack(const T* place) {
  const auto* packs = aligned<Pack<T, kWidth>>(place);
  Pack<T, kWidth> pack;
#if defined(__CUDA_ARCH__)
  if constexpr (sizeof(pack) > sizeof(uint4)) {
    SF_UNROLL
    for (std::size_t at = 0; at < sizeof(pack); at += sizeof(uint4)) {
      const uint4 word = *reinterpret_cast<const uint4*>(reinterpret_cast<const char*>(packs) + at);
      std::memcpy(reinterpret_cast<char*>(&pack) + at, &word, sizeof(word));
    }
  } else {
    pack = *packs;
  }
#else
  std::memcpy(&pack, packs, sizeof(pack));
#endif
  return pack;
}

#if defined(__CUDACC__)
/// What is stored with one instruction for a pack of so many bytes.
template <std::size_t kBytes>
using StoredWord = std::conditional_t<
    kBytes == 16, uint4,
    std::conditional_t<
        kBytes == 8, uint2,
        std::conditional_t<kBytes == 4, unsigned, std::conditional_t<kBytes == 2, unsigned short, unsigned char>>>>;
#endif

template <class T, int kWidth>
SF_HOST_DEVICE void store_pack(T* place, const Pack<T, kWidth>& pack) {
#if defined(__CUDA_ARCH__)
  // Said outright: in loops the compiler makes a store for each element of `*packs = pack`.
  using Word = StoredWord<sizeof(pack) < 16 ? sizeof(pack) : 16>;
  static_assert(sizeof(pack) % sizeof(Word) == 0);
  SF_UNROLL
  for (std::size_t i = 0; i < sizeof(pack) / sizeof(Word); ++i) {
    Word word;
    std::memcpy(&word, reinterpret_cast<const char*>(&pack) + i * sizeof(Word), sizeof(Word));
    __stwb(aligned<Word>(place) + i, word);
  }
#else
  std::memcpy(aligned<Pack<T, kWidth>>(place), &pack, sizeof(pack));
#endif
}

}  // namespace sectionflow::gpu
