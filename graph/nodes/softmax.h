#pragma once

#include "base/export.h"
#include "graph/ops/softmax.h"

namespace SF_API sectionflow {

/// dx = y (dy - sum_k dy[..., k] y[..., k]). Shapes: dy, y and result alike. f32 or bf16.
Value softmax_grad(Value dy, Value y);
/// dx = dy - e^y sum_k dy[..., k]. Shapes: dy, y and result alike. f32 or bf16.
Value log_softmax_grad(Value dy, Value y);

/// dlogits [N, C] from dloss [N], the second output of the forward op, its inputs and its options.
Value softmax_cross_entropy_grad(Value dloss, Value statistics, Value logits, Value labels,
                                 const SoftmaxCrossEntropyOptions& options = {});

/// Options of the ops "softmax_cross_entropy" and "softmax_cross_entropy_grad"; class weights are their last input, if
/// there are any.
struct SoftmaxCrossEntropyNodeOptions {
  float label_smoothing = 0;
};

}  // namespace sectionflow
