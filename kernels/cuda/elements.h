#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "base/dtype.h"
#include "base/error.h"
#include "base/host_device.h"
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

/// Neighbouring elements that a thread loads and stores with one instruction.
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
#if defined(__CUDA_ARCH__)
  return *packs;
#else
  Pack<T, kWidth> pack;
  std::memcpy(&pack, packs, sizeof(pack));
  return pack;
#endif
}

template <class T, int kWidth>
SF_HOST_DEVICE void store_pack(T* place, const Pack<T, kWidth>& pack) {
  auto* packs = aligned<Pack<T, kWidth>>(place);
#if defined(__CUDA_ARCH__)
  *packs = pack;
#else
  std::memcpy(packs, &pack, sizeof(pack));
#endif
}

}  // namespace sectionflow::gpu
