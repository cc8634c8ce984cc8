#pragma once

#include <cstdint>
#include <vector>

#include "base/shape.h"

namespace sectionflow {

/// The step in `operand`, in elements, for each dimension of `out`: 0 where the operand is repeated.
/// Shapes: operand broadcasts to out.
std::vector<std::int64_t> broadcast_strides(const Shape& operand, const Shape& out);

/// The step for each dimension of a tensor of shape `x` in a dense tensor of x's dimensions that are not `reduced`.
std::vector<std::int64_t> kept_strides(const Shape& x, const std::vector<bool>& reduced);

}  // namespace sectionflow
