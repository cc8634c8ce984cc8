#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "base/dtype.h"
#include "base/shape.h"

namespace sectionflow {

/// A table of rows that indices name, seen as [num_rows, row_length].
struct GatherTable {
  std::int64_t num_rows, row_length = 1;
  explicit GatherTable(const Shape& shape) : num_rows(shape[0]) {
    for (int i = 1; i < shape.rank(); ++i) row_length *= shape[i];
  }
};

/// `visit(Index{})` for the C++ type of indices, i32 or i64.
template <class Visit>
auto with_index_type(Dtype dtype, const Visit& visit) {
  return dtype == Dtype::i32 ? visit(std::int32_t{}) : visit(std::int64_t{});
}

namespace formulas {

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

}  // namespace formulas
}  // namespace sectionflow
