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

/// Throws: ArgumentError where x, the input of `layer` called `name`, is not f32.
void check_f32_input(Value x, std::string_view layer, const std::string& name);

}  // namespace sectionflow
