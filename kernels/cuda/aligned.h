#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/error.h"
#include "base/host_device.h"

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

}  // namespace sectionflow::gpu
