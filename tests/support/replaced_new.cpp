// Not in the library of test support, where every program would take it: only programs that ask for it.

#include "tests/support/replaced_new.h"

#ifndef SF_NO_ALLOCATION_HOOK

#include <new>

namespace {

using sectionflow::testing_support::replaced_delete;
using sectionflow::testing_support::replaced_new;

void* thrown_new(std::size_t num_bytes, std::size_t alignment) {
  void* bytes = replaced_new(num_bytes, alignment);
  if (bytes == nullptr) throw std::bad_alloc();
  return bytes;
}

}  // namespace

void* operator new(std::size_t num_bytes) {
  return thrown_new(num_bytes, 0);
}
void* operator new[](std::size_t num_bytes) {
  return thrown_new(num_bytes, 0);
}
void* operator new(std::size_t num_bytes, std::align_val_t alignment) {
  return thrown_new(num_bytes, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t num_bytes, std::align_val_t alignment) {
  return thrown_new(num_bytes, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t num_bytes, const std::nothrow_t&) noexcept {
  return replaced_new(num_bytes, 0);
}
void* operator new[](std::size_t num_bytes, const std::nothrow_t&) noexcept {
  return replaced_new(num_bytes, 0);
}
void operator delete(void* bytes) noexcept {
  replaced_delete(bytes);
}
void operator delete[](void* bytes) noexcept {
  replaced_delete(bytes);
}
void operator delete(void* bytes, std::size_t) noexcept {
  replaced_delete(bytes);
}
void operator delete[](void* bytes, std::size_t) noexcept {
  replaced_delete(bytes);
}
void operator delete(void* bytes, const std::nothrow_t&) noexcept {
  replaced_delete(bytes);
}
void operator delete[](void* bytes, const std::nothrow_t&) noexcept {
  replaced_delete(bytes);
}
void operator delete(void* bytes, std::align_val_t) noexcept {
  replaced_delete(bytes);
}
void operator delete[](void* bytes, std::align_val_t) noexcept {
  replaced_delete(bytes);
}
void operator delete(void* bytes, std::size_t, std::align_val_t) noexcept {
  replaced_delete(bytes);
}
void operator delete[](void* bytes, std::size_t, std::align_val_t) noexcept {
  replaced_delete(bytes);
}

#endif
