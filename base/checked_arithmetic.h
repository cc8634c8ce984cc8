#pragma once

#include <cstdint>

#include "base/error.h"

namespace sectionflow {

// Arithmetic on sizes that come from users.

/// a + b. Throws: ShapeError when it does not fit 64 bits.
inline std::int64_t checked_add(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  SF_CHECK(!__builtin_add_overflow(a, b, &sum), ShapeError, "size ", a, " + ", b, " does not fit 64 bits");
  return sum;
}

/// a * b. Throws: ShapeError on overflow or a negative factor.
inline std::int64_t checked_multiply(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  SF_CHECK(a >= 0 && b >= 0 && !__builtin_mul_overflow(a, b, &product), ShapeError, "size ", a, " x ", b,
           " is negative or does not fit 64 bits");
  return product;
}

}  // namespace sectionflow
