#include "graph/losses.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "graph/functions.h"
#include "graph/loss_operands.h"
#include "graph/nodes/layout.h"
#include "graph/op_def.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/indexing.h"
#include "graph/ops/layout.h"
#include "graph/ops/parts.h"
#include "graph/ops/reduce.h"
#include "graph/ops/softmax.h"
#include "graph/ops/unary.h"
#include "graph/parameter.h"
#include "graph/shape_rules.h"

namespace sectionflow {
namespace {

/// What is compared: in f32, and the second, which is of what `operand` takes, broadcasts to the first.
struct Compared {
  Value x, target;
};
Compared compared(const char* call, const char* role, Value x, Value targets,
                  Value (*operand)(const char*, const char*, Value) = float_operand) {
  const Compared both{float_operand(call, role, x), operand(call, "targets", targets)};
  check_part(call, role, x, "targets", targets);
  return {both.x, held_to(both.target, both.x)};
}

Value row_sums(Value x, int axis = -1) {
  return reduce_sum(x, {.axes = {axis}});
}

Value scalar_of(Value x, float number, std::string_view name) {
  return constant(x.graph(), number, name);
}

// ---- Labels that may be ignored.

/// Throws: ArgumentError for what is no class number, and for an ignore_index that it cannot be.
void check_class_numbers(const char* call, Value labels, std::int64_t ignore_index) {
  SF_CHECK(
      labels.dtype() == Dtype::i32 || labels.dtype() == Dtype::i64, ArgumentError, call, ": ", told("labels", labels),
      "; wanted class numbers, i32 or i64",
      hint("cast class numbers: cast(labels, Dtype::i32); softmax_cross_entropy takes probabilities of each class"));
  SF_CHECK(labels.dtype() == Dtype::i64 || ignore_index == static_cast<std::int32_t>(ignore_index), ArgumentError, call,
           ": ignore_index is ", ignore_index, ", which no label of ", labels.type().text(), " is",
           hint("cast the labels to i64"));
}

/// Labels without those that do not count.
struct KnownLabels {
  Value is_ignored;  ///< boolean
  Value labels;      ///< class 0 where ignored
};
/// One of each row of logits [..., C], to be read for its shape alone: [...].
Value of_rows(Value logits) {
  const auto rank = static_cast<std::size_t>(logits.shape().rank());
  std::vector<std::int64_t> size(rank, -1);
  size.back() = 1;
  return squeeze(slice(logits, {.begin = std::vector<std::int64_t>(rank, 0), .size = std::move(size)}), {-1});
}

/// All values of a call: those that are given for certain first.
std::vector<Value> given_of(Value labels, const CrossEntropyOptions& options, Value logits = {}) {
  std::vector<Value> given = {labels};
  if (logits.valid()) given.insert(given.begin(), logits);
  if (options.class_weights.valid()) given.push_back(options.class_weights);
  return given;
}

KnownLabels known_labels(Value labels, std::int64_t ignore_index) {
  Graph& graph = labels.graph();
  const auto number = [&](std::int64_t value, const char* name) {
    const bool is_i64 = labels.dtype() == Dtype::i64;
    return constant(graph, is_i64 ? HostTensor::scalar(value) : HostTensor::scalar(static_cast<std::int32_t>(value)),
                    name);
  };
  const Value is_ignored = equal(labels, number(ignore_index, "ignored"));
  return {is_ignored, select(is_ignored, number(0, "first_class"), labels)};
}

/// Throws: ArgumentError, ShapeError for options that are none, with the weights of `num_classes`, which may be
/// unknown.
void check_label_options(const char* call, const CrossEntropyOptions& options, std::int64_t num_classes) {
  check_option(call, "label_smoothing", options.label_smoothing, 0, 1);
  const Value weights = options.class_weights;
  if (!weights.valid()) return;
  SF_CHECK(may_agree(weights.type(), {Dtype::f32, {num_classes}}), ShapeError, call, ": ",
           told("class_weights", weights), "; wanted f32 ", Shape{num_classes});
  const HostTensor* known = constant_content(weights);
  if (known == nullptr) return;
  for (const float weight : known->values<float>()) check_not_negative(call, "a class weight", weight);
}

void check_cross_entropy(Value logits, Value labels, const CrossEntropyOptions& options) {
  check_floats("cross_entropy", "logits", logits);
  check_class_numbers("cross_entropy", labels, options.ignore_index);
  const Shape& shape = logits.shape();
  SF_CHECK(shape.rank() >= 1 && (shape.rank() == 2 || shape[-1] != kDynamic), ShapeError,
           "cross_entropy: ", told("logits", logits), "; wanted [..., C] with a known number of classes");
  SF_CHECK(shape[-1] != 0, ShapeError, "cross_entropy: ", told("logits", logits), "; wanted a class at least");
  std::vector<std::int64_t> rows(shape.dims().begin(), shape.dims().end() - 1);
  const Shape wanted(std::move(rows));
  SF_CHECK(may_agree({Dtype::i32, labels.shape()}, {Dtype::i32, wanted}), ShapeError,
           "cross_entropy: ", told("logits", logits), ", ", told("labels", labels), "; wanted a label a row, ", wanted);
  check_label_options("cross_entropy", options, shape[-1]);
}

// ---- Lengths.

/// The squares of lengths, of one below epsilon its square: the root of 0 would have an infinite gradient.
Value bounded_squares(Value squares, float epsilon) {
  return maximum(squares, scalar_of(squares, epsilon * epsilon, "least_square"));
}

Value distance(Value a, Value b, float epsilon) {
  return sqrt(bounded_squares(row_sums(square(a - b)), epsilon));
}

/// Along `axis`, a negative one.
Value cosine_of(Value a, Value b, int axis, float epsilon) {
  const auto reciprocal = [&](Value x) { return rsqrt(bounded_squares(row_sums(square(x), axis), epsilon)); };
  return row_sums(a * b, axis) * reciprocal(a) * reciprocal(b);
}

/// The axis counted from the end, where that of a and b is the same. Throws: ShapeError.
int common_axis(const char* call, Value a, Value b, int axis) {
  const Shape common =
      broadcast_shapes(a.shape(), b.shape(), text_of(call, " of '", a.name(), "' and '", b.name(), "'"));
  const int from_end = normalized_axis(axis, common.rank(), call) - common.rank();
  const int least_rank = std::min(a.shape().rank(), b.shape().rank());
  SF_CHECK(-from_end <= least_rank && a.shape()[from_end] == b.shape()[from_end] && a.shape()[from_end] != kDynamic,
           ShapeError, call, ": ", told("vectors", a), ", ", told("vectors", b),
           "; wanted both of one known size along axis ", axis);
  return from_end;
}

}  // namespace

Value cross_entropy(Value logits, Value labels, CrossEntropyOptions options, Where where) {
  return logits.graph().build_at(where, given_of(labels, options, logits), [&] {
    Graph& graph = logits.graph();
    const auto names = graph.scope("cross_entropy");
    check_cross_entropy(logits, labels, options);
    const KnownLabels known = known_labels(labels, options.ignore_index);
    const bool in_rows = logits.shape().rank() == 2;
    Value rows = in_rows ? logits : reshape(logits, {kDynamic, logits.shape()[-1]});
    Value& weights = options.class_weights;
    if (weights.valid() && (weights.shape()[0] == kDynamic || rows.shape()[1] == kDynamic)) {
      static constexpr auto kClasses = "cross_entropy: the number of classes";
      rows = same_size(rows, weights, {.axis = 1, .like_axis = 0, .what = kClasses});
      weights = same_size(weights, rows, {.axis = 0, .like_axis = 1, .what = kClasses});
    }
    const Value row_labels = in_rows ? known.labels : reshape(known.labels, {kDynamic});
    const Value losses = softmax_cross_entropy(
        rows, row_labels, {.label_smoothing = options.label_smoothing, .class_weights = options.class_weights});
    const Value is_ignored = in_rows ? known.is_ignored : held_to(known.is_ignored, of_rows(logits));
    return select(is_ignored, constant(graph, 0.0F, "none"), in_rows ? losses : reshape_like(losses, labels));
  });
}

Value label_weights(Value labels, CrossEntropyOptions options, Where where) {
  return labels.graph().build_at(where, given_of(labels, options), [&] {
    Graph& graph = labels.graph();
    const auto names = graph.scope("label_weights");
    check_class_numbers("label_weights", labels, options.ignore_index);
    check_label_options("label_weights", options, kDynamic);
    const KnownLabels known = known_labels(labels, options.ignore_index);
    const Value weights = options.class_weights;
    if (!weights.valid()) return cast(logical_not(known.is_ignored), Dtype::f32);
    return select(known.is_ignored, constant(graph, 0.0F, "none"), gather(weights, known.labels));
  });
}

// softplus(-x) = -ln sigmoid(x), softplus(x) = -ln(1 - sigmoid(x)): no term is negative, so that nothing cancels.
Value binary_cross_entropy_with_logits(Value logits, Value targets, BinaryCrossEntropyOptions options, Where where) {
  std::vector<Value> given = {logits, targets};
  if (options.positive_weights.valid()) given.push_back(options.positive_weights);
  return logits.graph().build_at(where, given, [&] {
    static constexpr auto kCall = "binary_cross_entropy_with_logits";
    const auto names = logits.graph().scope(kCall);
    const auto [x, hard] = compared(kCall, "logits", logits, targets, truth_operand);
    check_not_negative(kCall, "positive_weight", options.positive_weight);
    check_option(kCall, "label_smoothing", options.label_smoothing, 0, 1);
    const float smoothing = options.label_smoothing;
    // Both by themselves: 1 - t would have lost the digits of a small smoothing.
    const auto smoothed = [&](Value t) { return smoothing > 0 ? t * (1 - smoothing) + 0.5F * smoothing : t; };
    const Value t = smoothed(hard), other = smoothed(1.0F - hard);
    Value positive = t * softplus(-x);
    if (options.positive_weights.valid()) {
      SF_CHECK(options.positive_weight == 1, ArgumentError, kCall, ": positive_weight is ", options.positive_weight,
               " beside positive_weights; wanted one of them");
      check_part(kCall, "logits", logits, "positive_weights", options.positive_weights);
      positive = positive * held_to(float_operand(kCall, "positive_weights", options.positive_weights), x);
    } else if (options.positive_weight != 1) {
      positive = positive * options.positive_weight;
    }
    return positive + other * softplus(x);
  });
}

// (1 - p)^gamma = e^(-gamma softplus(x)): a power of 1 - p would have an infinite gradient at p = 1 for gamma < 1.
Value focal_loss(Value logits, Value targets, FocalLossOptions options, Where where) {
  return logits.graph().build_at(where, {logits, targets}, [&] {
    const auto names = logits.graph().scope("focal_loss");
    const auto [x, t] = compared("focal_loss", "logits", logits, targets, truth_operand);
    check_not_negative("focal_loss", "gamma", options.gamma);
    if (options.alpha) check_option("focal_loss", "alpha", *options.alpha, 0, 1);
    const Value of_positive = softplus(-x), of_negative = softplus(x);
    const auto term = [&](Value is_class, Value loss, Value other, float weight) {
      const Value weighted = options.alpha ? is_class * weight : is_class;
      return weighted * exp(other * -options.gamma) * loss;
    };
    const float alpha = options.alpha.value_or(1);
    return term(t, of_positive, of_negative, alpha) + term(1.0F - t, of_negative, of_positive, 1 - alpha);
  });
}

Value hinge_loss(Value scores, Value targets, HingeLossOptions options, Where where) {
  return scores.graph().build_at(where, {scores, targets}, [&] {
    const auto names = scores.graph().scope("hinge_loss");
    SF_CHECK(targets.dtype() != Dtype::boolean, ArgumentError, "hinge_loss: ", told("targets", targets),
             "; wanted -1 and 1", hint("cast(targets, Dtype::f32) * 2.0F - 1.0F"));
    const auto [x, t] = compared("hinge_loss", "scores", scores, targets);
    check_not_negative("hinge_loss", "margin", options.margin);
    return relu(options.margin - t * x);
  });
}

Value absolute_error(Value y, Value targets, Where where) {
  return y.graph().build_at(where, {y, targets}, [&] {
    const auto names = y.graph().scope("absolute_error");
    const auto [x, t] = compared("absolute_error", "predictions", y, targets);
    return abs(x - t);
  });
}

Value squared_error(Value y, Value targets, Where where) {
  return y.graph().build_at(where, {y, targets}, [&] {
    const auto names = y.graph().scope("squared_error");
    const auto [x, t] = compared("squared_error", "predictions", y, targets);
    return square(x - t);
  });
}

// c (d - c / 2), where c is d held within +-delta: both pieces in one, without a corner in its gradient.
Value huber_loss(Value y, Value targets, HuberLossOptions options, Where where) {
  return y.graph().build_at(where, {y, targets}, [&] {
    const auto names = y.graph().scope("huber_loss");
    const auto [x, t] = compared("huber_loss", "predictions", y, targets);
    SF_CHECK(options.delta > 0 && std::isfinite(options.delta), ArgumentError, "huber_loss: delta is ", options.delta,
             "; wanted a finite number above 0");
    const Value d = x - t;
    const Value held = clip(d, -options.delta, options.delta);
    return held * (d - held * 0.5F);
  });
}

// cosh d - 1 = -(e^d - 1)(e^-d - 1) / 2, whose logarithm loses no digit near 0. From 9 on ln cosh d = |d| - ln 2 to the
// last digit, and what is beyond 9 is added.
Value log_cosh_loss(Value y, Value targets, Where where) {
  return y.graph().build_at(where, {y, targets}, [&] {
    const auto names = y.graph().scope("log_cosh_loss");
    const auto [x, t] = compared("log_cosh_loss", "predictions", y, targets);
    const Value d = x - t;
    const Value held = clip(d, -9, 9);
    return log1p(expm1(held) * expm1(-held) * -0.5F) + abs(d - held);
  });
}

// Where p is 0 both logarithms are taken for 0, so that neither the term nor a gradient is 0 times infinity.
Value kl_divergence(Value log_probabilities, Value targets, KlDivergenceOptions options, Where where) {
  return log_probabilities.graph().build_at(where, {log_probabilities, targets}, [&] {
    const auto names = log_probabilities.graph().scope("kl_divergence");
    const auto [log_q, target] = compared("kl_divergence", "log_probabilities", log_probabilities, targets);
    SF_CHECK(log_q.shape().rank() >= 1, ShapeError, "kl_divergence: ", told("log_probabilities", log_probabilities),
             "; wanted [..., C]");
    const Value none = scalar_of(log_q, 0, "none");
    const Value p = options.log_targets ? exp(target) : target;
    const Value is_impossible = equal(p, none);
    const Value log_p = options.log_targets ? select(is_impossible, none, target)
                                            : log(select(is_impossible, scalar_of(log_q, 1, "one"), target));
    return row_sums(p * (log_p - select(is_impossible, none, log_q)));
  });
}

Value cosine_similarity(Value a, Value b, CosineSimilarityOptions options, Where where) {
  return a.graph().build_at(where, {a, b}, [&] {
    const auto names = a.graph().scope("cosine_similarity");
    const Value x = float_operand("cosine_similarity", "vectors", a);
    const Value y = float_operand("cosine_similarity", "vectors", b);
    check_length("cosine_similarity", options.epsilon);
    return cosine_of(x, y, common_axis("cosine_similarity", a, b, options.axis), options.epsilon);
  });
}

Value cosine_embedding_loss(Value a, Value b, Value targets, CosineEmbeddingOptions options, Where where) {
  return a.graph().build_at(where, {a, b, targets}, [&] {
    const auto names = a.graph().scope("cosine_embedding_loss");
    const Value t = truth_operand("cosine_embedding_loss", "targets", targets);
    check_option("cosine_embedding_loss", "margin", options.margin, -1, 1);
    const Value s = cosine_similarity(a, b, {.epsilon = options.epsilon});
    check_part("cosine_embedding_loss", "similarities", s, "targets", targets);
    return select(held_to(t, s) > 0.0F, 1.0F - s, relu(s - options.margin));
  });
}

Value triplet_margin_loss(Value anchor, Value positive, Value negative, TripletMarginOptions options, Where where) {
  return anchor.graph().build_at(where, {anchor, positive, negative}, [&] {
    static constexpr auto kCall = "triplet_margin_loss";
    const auto names = anchor.graph().scope(kCall);
    const Value a = float_operand(kCall, "anchors", anchor);
    const Value p = float_operand(kCall, "positives", positive), n = float_operand(kCall, "negatives", negative);
    SF_CHECK(a.shape().rank() >= 1, ShapeError, kCall, ": ", told("anchors", anchor), "; wanted [..., D]");
    check_part(kCall, "anchors", anchor, "positives", positive);
    check_part(kCall, "anchors", anchor, "negatives", negative);
    check_not_negative(kCall, "margin", options.margin);
    check_length(kCall, options.epsilon);
    const Value alike = held_to(p, a), unlike = held_to(n, a);
    const Value near = distance(a, alike, options.epsilon), of_anchor = distance(a, unlike, options.epsilon);
    const Value far = options.swap ? minimum(of_anchor, distance(alike, unlike, options.epsilon)) : of_anchor;
    return relu(near - far + options.margin);
  });
}

Value dice_loss(Value p, Value t, DiceOptions options, Where where) {
  return p.graph().build_at(where, {p, t}, [&] {
    const auto names = p.graph().scope("dice_loss");
    return 1.0F - dice(truth_operand("dice_loss", "probabilities", p), truth_operand("dice_loss", "targets", t),
                       std::move(options));
  });
}

Value weighted_mean(Value losses, Value weights, WeightedMeanOptions options, Where where) {
  return losses.graph().build_at(where, {losses, weights}, [&] {
    const auto names = losses.graph().scope("weighted_mean");
    const Value loss = float_operand("weighted_mean", "losses", losses);
    const Value given = truth_operand("weighted_mean", "weights", weights);
    check_part("weighted_mean", "losses", losses, "weights", weights);
    const bool alike = given.shape() == loss.shape() && loss.shape().is_static();
    const Value weight = alike ? given : broadcast_like(given, loss);
    const Value none = scalar_of(loss, 0, "none"), total = reduce_sum(weight);
    const Value sum = reduce_sum(options.is_weighted ? loss : select(equal(weight, none), none, loss) * weight);
    // The quotient that is not chosen is one by 1: its gradient, too, is 0 and not 0 / 0.
    const Value is_none = equal(total, none);
    return select(is_none, none, sum / select(is_none, scalar_of(loss, 1, "one"), total));
  });
}

}  // namespace sectionflow
