#pragma once

#include <cstdint>

#include "base/error.h"

namespace sectionflow {

/// a + b. Throws: ShapeError when it does not fit 64 bits.
inline std::int64_t checked_add(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  SF_CHECK(!__builtin_add_overflow(a, b, &sum), ShapeError, "size ", a, " + ", b, " does not fit 64 bits");
  return sum;
}

}  // namespace sectionflow
