#pragma once

#include <string>
#include <string_view>

#include "graph/initializer.h"
#include "graph/ops/basic.h"

namespace sectionflow {

// What layers share. They check their input before they make anything, so that a refused call leaves no parameters
// behind.

/// A variable with the value that `initializer` gives for `request`. Throws: ShapeError when that has another shape.
Value parameter(std::string_view name, const Initializer& initializer, const InitializerRequest& request,
                VariableOptions options = {});

/// Throws: ArgumentError where x, the input of `layer` called `name`, is neither f32 nor bf16.
void check_layer_input(Value x, std::string_view layer, const std::string& name);

/// x in the dtype in which layers compute: that of the open MixedPrecision, or else x's own.
Value in_layer_dtype(Value x);

/// x in another dtype; x itself where it is of it.
Value in_dtype(Value x, Dtype dtype);

}  // namespace sectionflow
