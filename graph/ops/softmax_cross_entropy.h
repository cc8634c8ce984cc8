#pragma once

#include "graph/graph.h"

namespace sectionflow {

/// loss[n] = -sum_c p[n, c] log softmax(logits)[n, c], where p is one-hot at labels[n] or given in full.
/// Shapes: logits [N, C] f32; labels [N] i32 or i64 with classes in [0, C), or [N, C] f32 with rows that sum to 1;
/// result [N]. A class outside [0, C) gives a NaN loss and NaN gradients for its row.
/// Throws: ShapeError, ArgumentError.
Value softmax_cross_entropy(Value logits, Value labels, Where where = Where::here());
/// dlogits from the softmax probabilities, which the forward op leaves as its second output, the labels and dloss [N].
Value softmax_cross_entropy_grad(Value probabilities, Value labels, Value dloss);

}  // namespace sectionflow
