#include "graph/metrics.h"

#include <cmath>
#include <numeric>

#include "base/error.h"
#include "graph/nodes/layout.h"
#include "graph/op_def.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/indexing.h"
#include "graph/ops/layout.h"
#include "graph/ops/reduce.h"
#include "graph/ops/unary.h"

namespace sectionflow {
namespace {

bool is_class_number(Value labels) {
  return labels.dtype() == Dtype::i32 || labels.dtype() == Dtype::i64;
}

Value in_f32(Value x) {
  return x.dtype() == Dtype::f32 ? x : cast(x, Dtype::f32);
}

/// Class numbers as i64, which holds both kinds.
Value in_i64(Value x) {
  return x.dtype() == Dtype::i64 ? x : cast(x, Dtype::i64);
}

void check_logits(Value logits, const char* call) {
  SF_CHECK(logits.dtype() == Dtype::f32 || logits.dtype() == Dtype::bf16, ArgumentError, call, ": logits '",
           logits.name(), "' are ", logits.type().text(), "; wanted f32 or bf16");
  SF_CHECK(logits.shape().rank() > 0, ShapeError, call, ": logits '", logits.name(),
           "' are a scalar; wanted a row of classes");
}

}  // namespace

Value accuracy(Value logits, Value labels, Where where) {
  return logits.graph().build_at(where, [&] {
    const auto names = logits.graph().scope("accuracy");
    check_logits(logits, "accuracy");
    SF_CHECK(is_class_number(labels) || labels.dtype() == Dtype::f32, ArgumentError, "accuracy: labels '",
             labels.name(), "' are ", labels.type().text(), "; wanted i32, i64 or, in full, f32");
    const int rank = labels.shape().rank() + (is_class_number(labels) ? 1 : 0);
    SF_CHECK(rank == logits.shape().rank(), ShapeError, "accuracy: logits '", logits.name(), "' are ",
             logits.type().text(), ", labels '", labels.name(), "' ", labels.type().text(), "; wanted a label a row");
    const Value wanted = is_class_number(labels) ? labels : argmax(labels);
    return mean(cast(equal(in_i64(argmax(in_f32(logits))), in_i64(wanted)), Dtype::f32));
  });
}

Value top_k_accuracy(Value logits, Value labels, std::int64_t k, Where where) {
  return logits.graph().build_at(where, [&] {
    Graph& graph = logits.graph();
    const auto names = graph.scope("top_k_accuracy");
    check_logits(logits, "top_k_accuracy");
    const Shape& shape = logits.shape();
    SF_CHECK(shape.rank() == 2 && shape[1] >= 1, ShapeError, "top_k_accuracy: logits '", logits.name(), "' are ",
             logits.type().text(), "; wanted [N, C] with a known number of classes");
    SF_CHECK(is_class_number(labels) && labels.shape().rank() == 1, ArgumentError, "top_k_accuracy: labels '",
             labels.name(), "' are ", labels.type().text(), "; wanted [N] i32 or i64");
    const std::int64_t classes = shape[1];
    SF_CHECK(k >= 1 && k <= classes, ArgumentError, "top_k_accuracy: k is ", k, "; wanted 1 to ", classes,
             ", the number of classes");
    HostTensor numbers(Dtype::i64, {classes});
    std::iota(numbers.values<std::int64_t>().begin(), numbers.values<std::int64_t>().end(), 0);
    const Value of_class = constant(graph, std::move(numbers), "classes");
    const Value label = reshape(in_i64(labels), {kDynamic, 1});
    const Value x = in_f32(logits), is_label = equal(of_class, label);
    // All other terms are 0: the sum equals the label's logit, and NaN stays.
    const Value none = constant(graph, 0.0F, "none");
    const Value of_label = reduce_sum(select(is_label, x, none), {.axes = {1}, .keep_dims = true});
    const auto count = [](Value booleans) { return reduce_sum(cast(booleans, Dtype::f32), {.axes = {1}}); };
    // Behind the label come smaller ones, and equal ones of higher numbers: both are false for NaN.
    const Value behind = count(less(x, of_label));
    const Value tied =
        reduce_sum(cast(equal(x, of_label), Dtype::f32) * cast(greater(of_class, label), Dtype::f32), {.axes = {1}});
    const Value least = constant(graph, static_cast<float>(classes - k), "least_behind");
    const Value is_there = greater_equal(behind + tied, least);
    const Value is_known = equal(of_label, of_label);
    return mean(cast(is_there, Dtype::f32) * count(is_label) * reshape(cast(is_known, Dtype::f32), {kDynamic}));
  });
}

Value dice(Value p, Value t, DiceOptions options, Where where) {
  return p.graph().build_at(where, [&] {
    const auto names = p.graph().scope("dice");
    SF_CHECK(p.dtype() == Dtype::f32 && t.dtype() == Dtype::f32, ArgumentError, "dice: '", p.name(), "' is ",
             p.type().text(), ", '", t.name(), "' ", t.type().text(), "; wanted f32", hint("cast them"));
    SF_CHECK(may_agree(p.type(), t.type()), ShapeError, "dice: '", p.name(), "' is ", p.type().text(), ", '", t.name(),
             "' ", t.type().text(), "; wanted masks of one shape");
    SF_CHECK(options.smooth > 0 && std::isfinite(options.smooth), ArgumentError, "dice: smooth is ", options.smooth,
             "; wanted a positive number, which keeps empty masks from a division by zero");
    Value held = t;
    for (int axis = 0; axis < p.shape().rank(); ++axis) {
      if (p.shape()[axis] != kDynamic && t.shape()[axis] != kDynamic) continue;
      const std::string what = text_of("dice: of '", p.name(), "' and '", t.name(), "' the size along axis ", axis);
      held = same_size(held, p, {.axis = axis, .like_axis = axis, .what = what});
    }
    const ReduceOptions over{.axes = options.axes};
    const Value both = reduce_sum(p * held, over) * 2.0F + options.smooth;
    const Value each = reduce_sum(p, over) + reduce_sum(held, over) + options.smooth;
    return mean(both / each);
  });
}

Value perplexity(Value losses, Where where) {
  return losses.graph().build_at(where, [&] {
    SF_CHECK(losses.dtype() == Dtype::f32, ArgumentError, "perplexity: losses '", losses.name(), "' are ",
             losses.type().text(), "; wanted f32");
    return exp(mean(losses));
  });
}

}  // namespace sectionflow
