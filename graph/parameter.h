#pragma once

#include <string>
#include <string_view>

#include "base/export.h"
#include "graph/initializer.h"
#include "graph/ops/basic.h"

namespace SF_API sectionflow {

// What layers are made of, those of users among them. They check their input before they make anything, so that a
// refused call leaves no parameters behind.

/// A variable with the value that `initializer` gives for `request`, below the current name scope. Within a scope of
/// SharedVariables it may be one that is there already; the initialiser is then not called.
/// Throws: ShapeError when the initial value has another shape; ArgumentError (SF-E015) as SharedVariables says.
Value parameter(std::string_view name, const Initializer& initializer, const InitializerRequest& request,
                VariableOptions options = {}, Where where = Where::here());

/// Throws: ArgumentError where x, the input of `layer` called `name`, is neither f32 nor bf16.
void check_layer_input(Value x, std::string_view layer, const std::string& name);

/// x in the dtype in which layers compute: that of the open MixedPrecision, or else x's own.
Value in_layer_dtype(Value x);

/// x in another dtype; x itself where it is of it.
Value in_dtype(Value x, Dtype dtype);

}  // namespace sectionflow
