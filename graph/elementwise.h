#pragma once

#include <vector>

#include "graph/op_def.h"

namespace sectionflow {

// Shape rules that element-wise operations share.

/// One input of any shape, f32 or bf16; the result is like it. Throws: ArgumentError for another dtype.
std::vector<TensorType> infer_like_float(const ShapeRequest& request);

/// A gradient and what it is computed from: inputs of one type, f32 or bf16, which is that of the result. Throws:
/// ShapeError.
std::vector<TensorType> infer_gradient_of_one(const ShapeRequest& request);

/// Two inputs of one dtype that broadcast; the result is their broadcast.
/// Throws: ArgumentError for unequal dtypes, ShapeError.
std::vector<TensorType> infer_broadcast(const ShapeRequest& request);

/// dy and two inputs, all f32 or all bf16, that broadcast to its shape; the result is like dy: how far inputs were
/// broadcast, their gradient rule undoes. Throws: ShapeError.
std::vector<TensorType> infer_gradient_of_two(const ShapeRequest& request);

}  // namespace sectionflow
