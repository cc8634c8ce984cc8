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
/// Shapes: logits [N, C] f32, or bf16, of which it computes in f32; labels [N] i32 or i64 with classes in [0, C), or
/// [N, C] f32; result [N]. Logits of more axes are made rows by reshape(logits, {-1, C}). A class outside [0, C) gives
/// a NaN loss and NaN gradients for its row. Throws: ShapeError, ArgumentError.
///
/// The gradient goes to the logits alone. It computes the probabilities again, from the logits and two numbers a row
/// that the op leaves as its second output [N, 2] and keeps: max_c logits[n, c] and ln sum_c e^(logits[n, c] - max).
Value softmax_cross_entropy(Value logits, Value labels, SoftmaxCrossEntropyOptions options = {},
                            Where where = Where::here());

}  // namespace sectionflow
