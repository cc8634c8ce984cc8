#pragma once

#include <cstdlib>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
#define SF_NO_ALLOCATION_HOOK
#endif
// Clang tells its sanitizers in another way.
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SF_NO_ALLOCATION_HOOK
#endif
#endif

namespace sectionflow::testing_support {

// A program that links replaced_new.cpp has every operator new and delete replaced and says here what they do. Where
// SF_NO_ALLOCATION_HOOK is defined nothing is replaced.

/// Bytes for any operator new; null: there are none. `alignment`: 0 for the usual one.
void* replaced_new(std::size_t num_bytes, std::size_t alignment) noexcept;
/// Gives bytes of replaced_new back; null is nothing.
void replaced_delete(void* bytes) noexcept;

}  // namespace sectionflow::testing_support
