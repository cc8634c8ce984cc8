#pragma once

#include <cstdint>
#include <vector>

#include "base/shape.h"

namespace sectionflow::testing_support {

/// The place of an element in a tensor: an index an axis.
using Position = std::vector<std::int64_t>;

/// Where element `number`, in row-major order, lies.
inline Position position_of(std::int64_t number, const Shape& shape) {
  Position position(static_cast<std::size_t>(shape.rank()));
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    position[axis] = number % shape[axis];
    number /= shape[axis];
  }
  return position;
}

/// The number, in row-major order, of the element at `position`.
inline std::size_t number_of(const Position& position, const Shape& shape) {
  std::int64_t number = 0;
  for (int axis = 0; axis < shape.rank(); ++axis) number = number * shape[axis] + position[axis];
  return static_cast<std::size_t>(number);
}

}  // namespace sectionflow::testing_support
