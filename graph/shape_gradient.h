#pragma once

#include <functional>
#include <string>

#include "graph/op_def.h"

namespace sectionflow {

/// The type of y from that of x under the options of the request; throws what the op's shape rule throws.
using TypeRule = std::function<TensorType(const ShapeRequest& request, const TensorType& x)>;

/// A gradient op of inputs dy and x that reads nothing of x but its shape: dy must be like y, the result is like x.
/// Throws, as its shape rule: ShapeError when dy is not, and what `y_of` throws.
OpDef gradient_by_shape(std::string name, OptionsDescription options, TypeRule y_of);

}  // namespace sectionflow
