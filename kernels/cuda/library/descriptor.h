#pragma once

#include <cstddef>
#include <memory>
#include <type_traits>

#include "base/bytes.h"

namespace sectionflow::gpu {

/// How much scratch a library's algorithm may ask for. A constant: an algorithm that followed the budget would give
/// other bits under another budget. It is what cuBLAS recommends for GPUs from Hopper on.
inline constexpr std::size_t kMostLibraryWorkspace = std::size_t{32} << 20;

template <auto destroy>
struct DestroyWith {
  template <class T>
  void operator()(T* descriptor) const noexcept {
    (void)destroy(descriptor);
  }
};
/// The owner of a library's descriptor, a pointer that the library's function `destroy` ends.
template <class Pointer, auto destroy>
using Descriptor = std::unique_ptr<std::remove_pointer_t<Pointer>, DestroyWith<destroy>>;

}  // namespace sectionflow::gpu
