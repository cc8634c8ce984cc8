#pragma once

#include <cstdint>
#include <vector>

#include "base/export.h"
#include "graph/graph.h"

namespace SF_API sectionflow {

// Metrics as operations: fetched like any value, by any strategy, of one batch. Those of whole data sets are means over
// batches of equal size.

/// The part of the rows whose label is the class of the largest logit: of several equal ones the first counts, and NaN
/// as largest. A label outside the classes is wrong.
/// Shapes: logits [..., C] f32 or bf16; labels [...] i32 or i64, or [..., C] f32 whose largest entry is the class;
/// result [] f32. Throws: ShapeError, ArgumentError for other dtypes.
Value accuracy(Value logits, Value labels, Where where = Where::here());

/// The part of the rows whose label is among the k classes of the largest logits, of equal ones those of the lower
/// numbers: with k = 1 it is accuracy. NaN counts as larger than any number, and a row whose label's logit is NaN, or
/// whose label is outside the classes, is wrong. Shapes: logits [N, C] f32 or bf16 with C known; labels [N] i32 or i64;
/// result [] f32. Throws: ShapeError, ArgumentError for k outside [1, C].
Value top_k_accuracy(Value logits, Value labels, std::int64_t k, Where where = Where::here());

/// Over what dice sums, and what it adds.
struct DiceOptions {
  /// The axes that are summed over, the pixels; negative ones count from the end; empty: all. The mean is taken over
  /// the rest, such as examples and classes.
  std::vector<int> axes{};
  /// Added to numerator and denominator: where both masks are empty, dice is 1. Above 0.
  float smooth = 1;
};
/// The mean of (2 sum p t + smooth) / (sum p + sum t + smooth): how far predicted and true masks overlap.
/// Differentiable in p: 1 - dice is a loss. Shapes: p probabilities or 0 and 1, t alike, f32; result []. Throws:
/// ShapeError, ArgumentError. Source: Milletari, Navab and Ahmadi 2016, with sums in the place of squares in the
/// denominator.
Value dice(Value p, Value t, DiceOptions options = {}, Where where = Where::here());

/// e^mean(losses): of the cross entropies of tokens the number of equally likely tokens between which the model wavers.
/// Shapes: losses any, such as softmax_cross_entropy gives them, f32; result [].
Value perplexity(Value losses, Where where = Where::here());

}  // namespace sectionflow
