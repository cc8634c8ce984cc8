#pragma once

#include <vector>

#include "graph/op_def.h"

namespace sectionflow {

// Shape rules that element-wise operations share.

/// One f32 input of any shape; the result is like it. Throws: ArgumentError for another dtype.
std::vector<TensorType> infer_like_f32(const ShapeRequest& request);

/// A gradient and what it is computed from: inputs of one f32 type, which is that of the result. Throws: ShapeError.
std::vector<TensorType> infer_gradient_of_one(const ShapeRequest& request);

/// Two inputs of one dtype that broadcast; the result is their broadcast.
/// Throws: ArgumentError for unequal dtypes, ShapeError.
std::vector<TensorType> infer_broadcast(const ShapeRequest& request);

/// dy and two inputs, all f32, that broadcast to its shape; the result is like dy: how far inputs were broadcast, their
/// gradient rule undoes. Throws: ShapeError.
std::vector<TensorType> infer_gradient_of_two(const ShapeRequest& request);

}  // namespace sectionflow
