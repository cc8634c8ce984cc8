#pragma once

#include <cstddef>
#include <cstdint>

#include "base/shape.h"

namespace sectionflow::testing_support {

/// The element of a tensor of `shape` that is repeated at `index` of `out`, which `shape` broadcasts to.
inline std::size_t source_index(std::int64_t index, const Shape& out, const Shape& shape) {
  std::int64_t source = 0, stride = 1;
  for (int i = 1; i <= out.rank(); ++i) {
    const std::int64_t position = index % out[-i];
    index /= out[-i];
    if (i > shape.rank()) continue;
    source += shape[-i] == 1 ? 0 : position * stride;
    stride *= shape[-i];
  }
  return static_cast<std::size_t>(source);
}

}  // namespace sectionflow::testing_support
