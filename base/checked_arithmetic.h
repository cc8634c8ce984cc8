#pragma once

#include <cstdint>
#include <string_view>

#include "base/error.h"

namespace sectionflow {

// Arithmetic on sizes that come from users. `label` begins the error's text, as that of an operation does.

/// Throws: ShapeError of a size that is none.
[[noreturn]] inline void refuse_size(std::string_view label, std::int64_t a, const char* sign, std::int64_t b,
                                     const char* why) {
  throw ShapeError(error_text_of(label, label.empty() ? "" : ": ", "size ", a, sign, b, why,
                                 hint("look for a dimension or an option that is not what was meant")));
}

/// a + b. Throws: ShapeError when it does not fit 64 bits.
inline std::int64_t checked_add(std::int64_t a, std::int64_t b, std::string_view label = {}) {
  std::int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) refuse_size(label, a, " + ", b, " does not fit 64 bits");
  return sum;
}

/// a * b. Throws: ShapeError on overflow or a negative factor.
inline std::int64_t checked_multiply(std::int64_t a, std::int64_t b, std::string_view label = {}) {
  std::int64_t product = 0;
  if (a < 0 || b < 0 || __builtin_mul_overflow(a, b, &product)) {
    refuse_size(label, a, " x ", b, " is negative or does not fit 64 bits");
  }
  return product;
}

}  // namespace sectionflow
