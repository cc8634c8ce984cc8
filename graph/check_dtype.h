#pragma once

#include <string>

#include "graph/op_def.h"

namespace sectionflow {

/// Throws: ArgumentError that begins with `label` unless the type is f32.
void check_f32(const TensorType& type, const std::string& label);

/// The same for every input of a node; of several, the error says which.
void check_f32(const ShapeRequest& request);

/// Whether arithmetic on activations takes the dtype: f32 or bf16.
bool is_f32_or_bf16(Dtype dtype);

/// Throws: ArgumentError that begins with `label` unless the type is f32 or bf16.
void check_f32_or_bf16(const TensorType& type, const std::string& label);

/// The same for every input of a node, which are also to be of one dtype; of several, the error says which is not.
/// Returns that dtype.
Dtype check_f32_or_bf16(const ShapeRequest& request);

}  // namespace sectionflow
