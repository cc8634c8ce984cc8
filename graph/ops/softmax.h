#pragma once

#include "base/export.h"
#include "graph/graph.h"

namespace SF_API sectionflow {

/// y[..., c] = e^x[..., c] / sum_k e^x[..., k]: along the last axis. An x of -infinity is impossible: y is 0; a row of
/// nothing else, of NaN or +infinity gives NaN. Shapes: x [..., C], y like x. f32 or bf16.
/// Throws: ShapeError if x is a scalar, ArgumentError for another dtype.
Value softmax(Value x, Where where = Where::here());
/// y = ln softmax(x) = x - ln sum_k e^x[..., k], without the loss of digits of a logarithm of small numbers.
Value log_softmax(Value x, Where where = Where::here());

/// dx = y (dy - sum_k dy[..., k] y[..., k]). Shapes: dy, y and result alike. f32 or bf16.
Value softmax_grad(Value dy, Value y);
/// dx = dy - e^y sum_k dy[..., k]. Shapes: dy, y and result alike. f32 or bf16.
Value log_softmax_grad(Value dy, Value y);

}  // namespace sectionflow
