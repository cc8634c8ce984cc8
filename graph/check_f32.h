#pragma once

#include <string>

#include "graph/op_def.h"

namespace sectionflow {

/// Throws: ArgumentError that begins with `label` unless the type is f32.
void check_f32(const TensorType& type, const std::string& label);

/// The same for every input of a node; of several, the error says which.
void check_f32(const ShapeRequest& request);

}  // namespace sectionflow
