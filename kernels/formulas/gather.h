#pragma once

#include <limits>

namespace sectionflow::formulas {

/// What stands for an element of a row that a table does not have.
template <class T>
constexpr T missing_element() {
  return std::numeric_limits<T>::has_quiet_NaN ? std::numeric_limits<T>::quiet_NaN() : T{};
}

}  // namespace sectionflow::formulas
