#pragma once

#include "base/export.h"
#include "graph/graph.h"

namespace SF_API sectionflow {

/// How labels are softened and classes are weighed.
struct SoftmaxCrossEntropyOptions {
  /// In [0, 1]: the part of a row's label that is spread evenly over all classes.
  float label_smoothing = 0;
  /// [C] f32, >= 0: what a class counts; invalid: 1 each.
  Value class_weights{};
};

/// loss[n] = -sum_c q[n, c] log softmax(logits)[n, c] with q[n, c] = w[c] ((1 - s) p[n, c] + s / C), where p is one-hot
/// at labels[n] or given in full, w are the class weights and s is the label smoothing. These are the losses of
/// PyTorch's cross_entropy without reduction; mean(loss) divides their sum by N, not by the sum of the rows' weights.
/// Shapes: logits [N, C] f32, or bf16, which is cast to it; labels [N] i32 or i64 with classes in [0, C), or [N, C]
/// f32; result [N]. A class outside [0, C) gives a NaN loss and NaN gradients for its row. Throws: ShapeError,
/// ArgumentError.
///
/// The gradient goes to the logits alone. It computes the probabilities again, from the logits and two numbers a row
/// that the op leaves as its second output [N, 2] and keeps: max_c logits[n, c] and ln sum_c e^(logits[n, c] - max).
Value softmax_cross_entropy(Value logits, Value labels, SoftmaxCrossEntropyOptions options = {},
                            Where where = Where::here());

/// dlogits [N, C] from dloss [N], the second output of the forward op, its inputs and its options.
Value softmax_cross_entropy_grad(Value dloss, Value statistics, Value logits, Value labels,
                                 const SoftmaxCrossEntropyOptions& options = {});

/// Options of the ops "softmax_cross_entropy" and "softmax_cross_entropy_grad"; class weights are their last input, if
/// there are any.
struct SoftmaxCrossEntropyNodeOptions {
  float label_smoothing = 0;
};

}  // namespace sectionflow
