#include "tests/support/replaced_malloc.h"

#include <cerrno>

#ifndef SF_NO_ALLOCATION_HOOK

using sectionflow::testing_support::observe_malloc;

extern "C" {

void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);

void* malloc(std::size_t num_bytes) {
  observe_malloc(num_bytes, __builtin_return_address(0));
  return __libc_malloc(num_bytes);
}
void* calloc(std::size_t count, std::size_t num_bytes) {
  observe_malloc(count * num_bytes, __builtin_return_address(0));
  return __libc_calloc(count, num_bytes);
}
void* realloc(void* bytes, std::size_t num_bytes) {
  observe_malloc(num_bytes, __builtin_return_address(0));
  return __libc_realloc(bytes, num_bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t num_bytes) {
  observe_malloc(num_bytes, __builtin_return_address(0));
  return __libc_memalign(alignment, num_bytes);
}
int posix_memalign(void** bytes, std::size_t alignment, std::size_t num_bytes) {
  observe_malloc(num_bytes, __builtin_return_address(0));
  *bytes = __libc_memalign(alignment, num_bytes);
  return *bytes == nullptr ? ENOMEM : 0;
}
}

#endif
