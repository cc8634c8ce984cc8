#pragma once

#include <limits>
#include <type_traits>

#include "base/dtype.h"

namespace sectionflow::formulas {

/// What stands for an element of a row that a table does not have: NaN, or 0 of integers.
template <class T>
constexpr T missing_element() {
  if constexpr (std::is_same_v<T, BFloat16>) {
    BFloat16 nan;
    nan.bits = 0x7FC0;
    return nan;
  } else {
    return std::numeric_limits<T>::has_quiet_NaN ? std::numeric_limits<T>::quiet_NaN() : T{};
  }
}

}  // namespace sectionflow::formulas
