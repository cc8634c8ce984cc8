#include "tests/fuzz/heap_peak.h"

#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>

#include "tests/support/replaced_new.h"

namespace {

// Signed: bytes that were there before the counting began may go.
std::atomic<std::int64_t> now = 0, begun_at = 0, peak = 0;

void count_bytes(std::int64_t bytes) {
  const std::int64_t sum = now.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  std::int64_t seen = peak.load(std::memory_order_relaxed);
  while (seen < sum && !peak.compare_exchange_weak(seen, sum, std::memory_order_relaxed)) {
  }
}

}  // namespace

namespace sectionflow::fuzz {

void begin_heap_peak() {
  begun_at = now.load();
  peak = now.load();
}
std::size_t heap_peak_bytes() {
  return static_cast<std::size_t>(std::max<std::int64_t>(peak - begun_at, 0));
}

}  // namespace sectionflow::fuzz

#ifdef SF_NO_ALLOCATION_HOOK

// sanitizer/allocator_interface.h, which g++ does not install.
extern "C" {
int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void*, std::size_t),
                                              void (*on_free)(const volatile void*));
std::size_t __sanitizer_get_allocated_size(const volatile void* bytes);
}

namespace {

[[maybe_unused]] const int installed = __sanitizer_install_malloc_and_free_hooks(
    [](const volatile void*, std::size_t num_bytes) { count_bytes(static_cast<std::int64_t>(num_bytes)); },
    [](const volatile void* bytes) { count_bytes(-static_cast<std::int64_t>(__sanitizer_get_allocated_size(bytes))); });

}  // namespace

#else

namespace {

void* counted(void* bytes) {
  if (bytes != nullptr) count_bytes(static_cast<std::int64_t>(malloc_usable_size(bytes)));
  return bytes;
}
void count_gone(void* bytes) {
  if (bytes != nullptr) count_bytes(-static_cast<std::int64_t>(malloc_usable_size(bytes)));
}

}  // namespace

extern "C" {

void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
void __libc_free(void*);

void* malloc(std::size_t num_bytes) {
  return counted(__libc_malloc(num_bytes));
}
void* calloc(std::size_t count, std::size_t num_bytes) {
  return counted(__libc_calloc(count, num_bytes));
}
void* realloc(void* bytes, std::size_t num_bytes) {
  const auto before = bytes == nullptr ? 0 : static_cast<std::int64_t>(malloc_usable_size(bytes));
  void* moved = __libc_realloc(bytes, num_bytes);
  if (moved == nullptr && num_bytes != 0) return nullptr;
  count_bytes(-before);
  return counted(moved);
}
void* memalign(std::size_t alignment, std::size_t num_bytes) {
  return counted(__libc_memalign(alignment, num_bytes));
}
void* aligned_alloc(std::size_t alignment, std::size_t num_bytes) {
  return counted(__libc_memalign(alignment, num_bytes));
}
int posix_memalign(void** bytes, std::size_t alignment, std::size_t num_bytes) {
  *bytes = counted(__libc_memalign(alignment, num_bytes));
  return *bytes == nullptr ? ENOMEM : 0;
}
void free(void* bytes) {
  count_gone(bytes);
  __libc_free(bytes);
}
}

#endif
