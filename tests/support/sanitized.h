#pragma once

namespace sectionflow::testing_support {

/// Whether this program is built with a sanitizer, which keeps for a while what is freed, and opens files of its own.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kIsSanitized = true;
#elif defined(__has_feature)
// Clang tells its sanitizers in another way.
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = false;
#endif
#else
inline constexpr bool kIsSanitized = false;
#endif

}  // namespace sectionflow::testing_support
