#pragma once

#include <cstdint>
#include <optional>

#include "base/export.h"
#include "graph/graph.h"
#include "graph/metrics.h"

namespace SF_API sectionflow {

// Losses, one an element or one a row, so that masks and weights may come between them and their mean: mean(losses)
// averages all of them, weighted_mean(losses, weights) what counts. Inputs are f32 or bf16, of which they compute in
// f32; targets of 0 and 1, and weights, may also be boolean. Results are f32. What is broadcast is the target, to the
// shape of what it is compared with; one that would make another shape of it, such as [N] beside [N, 1], is refused.
// Gradients go to every input of floats, where nothing else is said: put stop_gradient() around a target that is
// computed and not to be trained. Errors are those of finite inputs, in epsilons of f32, 2^-23; what is below 2^-126
// may count as 0. Throws: ArgumentError for other dtypes and for options out of their range, ShapeError.

// ---- Classes.

/// Which rows count, and how much.
struct CrossEntropyOptions {
  /// The label of rows that do not count. It may be the number of a class.
  std::int64_t ignore_index = -100;
  /// In [0, 1]: the part of a row's label that is spread evenly over all classes.
  float label_smoothing = 0;
  /// [C] f32, finite and >= 0, which is looked at of constants alone: what a class counts; invalid: 1 each.
  Value class_weights{};
};
/// softmax_cross_entropy of logits of any rank, and 0 where a label is `ignore_index`: no gradient goes there, unless
/// the softmax of the row is NaN. Any other label outside of [0, C) gives NaN. Class weights take no gradient.
/// Shapes: logits [..., C], with C known unless they are [N, C]; labels [...] i32 or i64, of more than one axis known
/// where the logits are; result [...].
///
/// These are PyTorch's losses without reduction. Its mean is their sum over that of the weights of their labels, which
/// without class weights is the number of rows that count; mean(losses) divides by the number of all rows:
///
///     const Value loss = weighted_mean(losses, label_weights(labels, options), {.is_weighted = true});
///
/// Of a batch in which no row counts this is 0, where PyTorch's is NaN.
Value cross_entropy(Value logits, Value labels, CrossEntropyOptions options = {}, Where where = Where::here());

/// What each label counts: 0 where it is `ignore_index`; else the weight of its class, 1 without class weights. A label
/// outside of [0, C) has the weight NaN where there are class weights. Label smoothing changes nothing.
/// Shapes: labels [...] i32 or i64; result [...] f32. No gradient but to class weights.
Value label_weights(Value labels, CrossEntropyOptions options = {}, Where where = Where::here());

/// How the two classes count.
struct BinaryCrossEntropyOptions {
  /// What targets of 1 count, where those of 0 count 1: above 1 it is for rare positives. Finite, >= 0.
  float positive_weight = 1;
  /// The same as a value that broadcasts to the logits, such as [C] f32: one a class. In the place of the number.
  Value positive_weights{};
  /// In [0, 1]: a target t counts as t (1 - s) + s / 2.
  float label_smoothing = 0;
};
/// loss = -w t ln sigmoid(x) - (1 - t) ln(1 - sigmoid(x)), where w is the positive weight: any number of classes, each
/// of which is there or not. Within 8 epsilons of itself, however large x is. Its gradient to x is
/// (1 - t) sigmoid(x) - w t sigmoid(-x). Shapes: logits any, targets in [0, 1] broadcast to them; result like logits.
/// This is PyTorch's without reduction.
Value binary_cross_entropy_with_logits(Value logits, Value targets, BinaryCrossEntropyOptions options = {},
                                       Where where = Where::here());

/// How much easy elements, and the two classes, count.
struct FocalLossOptions {
  /// In [0, 1]: what targets of 1 count; those of 0 count 1 - alpha. None: both count 1.
  std::optional<float> alpha = 0.25F;
  /// How fast the weight of an element falls with the probability that its class is given already. Finite, >= 0; at 0
  /// none falls.
  float gamma = 2;
};
/// loss = -t alpha (1 - p)^gamma ln p - (1 - t) (1 - alpha) p^gamma ln(1 - p) with p = sigmoid(x): the binary cross
/// entropy where few of many elements are positive. Within 8 + 2 gamma (1 + |x|) epsilons of itself. Shapes: as
/// binary_cross_entropy_with_logits. Source: Lin et al. 2017, Focal loss for dense object detection, for t of 0 and 1;
/// between them a mean of both.
Value focal_loss(Value logits, Value targets, FocalLossOptions options = {}, Where where = Where::here());

/// How far scores are to be from 0.
struct HingeLossOptions {
  float margin = 1;  ///< finite, >= 0
};
/// loss = max(0, margin - t x). Its gradient to x is -t where t x < margin, and 0 from there on.
/// Shapes: scores any, targets of -1 and 1 broadcast to them; result like scores.
Value hinge_loss(Value scores, Value targets, HingeLossOptions options = {}, Where where = Where::here());

// ---- Numbers. Shapes: y any, targets broadcast to it; result like y. With d = y - target:

/// |d|. Its gradient to y is the sign of d, 0 at 0.
Value absolute_error(Value y, Value targets, Where where = Where::here());
/// d d.
Value squared_error(Value y, Value targets, Where where = Where::here());

/// From where on the loss is linear.
struct HuberLossOptions {
  float delta = 1;  ///< finite, > 0
};
/// d d / 2 up to |d| = delta, and delta (|d| - delta / 2) from there on: its gradient to y is d, held within +-delta.
/// PyTorch's smooth_l1_loss with beta is this with delta = beta, divided by beta. Source: Huber 1964.
Value huber_loss(Value y, Value targets, HuberLossOptions options = {}, Where where = Where::here());

/// ln cosh d, which is d d / 2 near 0 and |d| - ln 2 far from it. Within 8 epsilons of itself, however small or large
/// d is. Its gradient to y is tanh d.
Value log_cosh_loss(Value y, Value targets, Where where = Where::here());

// ---- Distributions.

/// What the targets are.
struct KlDivergenceOptions {
  /// The targets are logarithms of probabilities too.
  bool log_targets = false;
};
/// The Kullback-Leibler divergence of each row, sum_c p[..., c] (ln p[..., c] - log_q[..., c]), with 0 ln 0 = 0: a
/// class that is impossible adds nothing, whatever log_q is, and no gradient goes there. That to p is ln p + 1 - log_q.
/// It errs by 4 epsilons of sum_c p (|ln p| + |log_q|): by more than a few of its own where p is nearly q. Shapes:
/// log_probabilities log_q [..., C], such as log_softmax gives them; targets p broadcast to it; result [...]. PyTorch's
/// kl_div gives the terms; its reduction "batchmean" is the mean of these rows.
Value kl_divergence(Value log_probabilities, Value targets, KlDivergenceOptions options = {},
                    Where where = Where::here());

// ---- Vectors.

/// Along which axis, and from which length on.
struct CosineSimilarityOptions {
  /// Of the vectors; a negative one counts from the end, another from the first of the common shape.
  int axis = -1;
  /// A shorter vector counts as one of this length, and no gradient goes through its length. In [1e-12, 1e12].
  float epsilon = 1e-8F;
};
/// a b / (max(|a|, epsilon) max(|b|, epsilon)): the cosine of the angle between two vectors, 0 where one is 0. It errs
/// by 4 epsilons, and may be above 1 by as much. Squares of the elements must be in the range of f32.
/// Shapes: a, b any two that broadcast, of one known size along the axis; result their broadcast without it.
Value cosine_similarity(Value a, Value b, CosineSimilarityOptions options = {}, Where where = Where::here());

/// How unlike the others are to be.
struct CosineEmbeddingOptions {
  float margin = 0;       ///< in [-1, 1]: similarities below it cost nothing
  float epsilon = 1e-8F;  ///< as CosineSimilarityOptions::epsilon
};
/// 1 - s where the target is above 0: two that are to be alike; else max(0, s - margin), with s =
/// cosine_similarity(a, b). No gradient goes where that is 0, and none to the target.
/// Shapes: a, b [..., D]; targets, of -1 and 1 or boolean, broadcast to [...]; result [...].
Value cosine_embedding_loss(Value a, Value b, Value targets, CosineEmbeddingOptions options = {},
                            Where where = Where::here());

/// How far apart distances are to be.
struct TripletMarginOptions {
  float margin = 1;  ///< finite, >= 0
  /// The distance to `negative` is that of the anchor or of `positive`, whichever is less.
  bool swap = false;
  /// A shorter distance counts as this, and has no gradient. In [1e-12, 1e12].
  float epsilon = 1e-6F;
};
/// max(0, |anchor - positive| - |anchor - negative| + margin) with Euclidean distances: no gradient where `negative` is
/// farther by the margin. PyTorch adds its epsilon to each difference instead. NaN where the squares of both distances
/// leave the range of f32. Shapes: anchor [..., D], positive and
/// negative broadcast to it; result [...]. Source: Balntas et al. 2016, with its swap.
Value triplet_margin_loss(Value anchor, Value positive, Value negative, TripletMarginOptions options = {},
                          Where where = Where::here());

/// 1 - dice(p, t, options): a scalar, since dice is a mean. Shapes: p probabilities, t alike; result [].
Value dice_loss(Value p, Value t, DiceOptions options = {}, Where where = Where::here());

// ---- Means.

/// What the losses are.
struct WeightedMeanOptions {
  /// They have the weights in them, as those of cross_entropy have class weights: all are summed as they are.
  bool is_weighted = false;
};
/// sum w l / sum w over all elements, and 0, without a gradient, where the weights' sum is 0. A loss of weight 0, be it
/// NaN, does not count and gets the gradient 0. Weights are masks (boolean, or 0 and 1) or what each element counts.
/// Shapes: losses any, with an element at least; weights broadcast to them; result [] f32.
Value weighted_mean(Value losses, Value weights, WeightedMeanOptions options = {}, Where where = Where::here());

}  // namespace sectionflow
