#include "graph/ops/softmax.h"

#include <string>

#include "autodiff/compose.h"
#include "autodiff/gradient_registry.h"
#include "graph/nodes/layout.h"
#include "graph/nodes/reduce.h"
#include "graph/nodes/softmax.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/indexing.h"
#include "graph/ops/layout.h"
#include "graph/ops/reduce.h"
#include "graph/ops/unary.h"

namespace sectionflow {
namespace {

Value row_sum(Value x) {
  return reduce_sum(x, {.axes = {-1}, .keep_dims = true});
}

// dx = y (dy - sum dy y). Of dy: the same of g. Of y: g (dy - sum dy y) - dy sum g y.
std::vector<Value> softmax_grad_gradient(const GradientRequest& r) {
  const Value g = r.dy(), dy = r.input(0), y = r.input(1);
  return {r.wanted[0] ? softmax_grad(g, y) : Value(),
          r.wanted[1] ? g * (dy - row_sum(dy * y)) - dy * row_sum(g * y) : Value()};
}

// dx = dy - e^y sum dy. Of dy: g - sum g e^y. Of y: -g e^y sum dy.
std::vector<Value> log_softmax_grad_gradient(const GradientRequest& r) {
  const Value g = r.dy(), dy = r.input(0);
  const Value weighted = g * exp(r.input(1));
  return {r.wanted[0] ? g - row_sum(weighted) : Value(), r.wanted[1] ? neg(weighted * row_sum(dy)) : Value()};
}

/// Throws where a gradient is wanted for labels, input `labels`, or for class weights, the one behind, if there are
/// any.
void refuse_labels(const GradientRequest& r, std::size_t labels) {
  const char* names[] = {"labels", "class_weights"};
  for (std::size_t i = labels; i < r.wanted.size(); ++i) {
    SF_CHECK_CODE(!r.wanted[i], ArgumentError, ErrorCode::no_gradient_rule, r.node.label(), ": ", names[i - labels],
                  " '", r.node.inputs()[i].name(), "' depend on a variable to train; gradients with respect to ",
                  names[i - labels], " are not supported",
                  hint("put stop_gradient() around them, or compute the loss from log_softmax"));
  }
}

SoftmaxCrossEntropyOptions options_of(const GradientRequest& r, std::size_t class_weights) {
  return {.label_smoothing = r.node.options<SoftmaxCrossEntropyNodeOptions>().label_smoothing,
          .class_weights = r.wanted.size() > class_weights ? r.node.inputs()[class_weights] : Value()};
}

std::vector<Value> softmax_cross_entropy_gradient(const GradientRequest& r) {
  SF_CHECK_CODE(!r.output_gradients[1].valid(), ArgumentError, ErrorCode::no_gradient_rule, r.node.label(),
                ": the loss depends on the statistics of its rows themselves, which have no gradient here",
                hint("compute them with reduce_max and reduce_sum"));
  refuse_labels(r, 1);
  std::vector<Value> gradients(r.wanted.size());
  gradients[0] = softmax_cross_entropy_grad(r.dy(), r.node.output(1), r.input(0), r.input(1), options_of(r, 2));
  return gradients;
}

/// The sum of each row of q, by which loss[n] = -sum q log softmax: [N]. `unit`: the gradient for dloss = 1, which is
/// NaN in rows whose class there is none of.
Value label_sums(Value labels, const SoftmaxCrossEntropyOptions& options, Value unit) {
  const float kept = 1 - options.label_smoothing;
  const Value weights = options.class_weights;
  if (!is_floating(labels.dtype())) {
    if (!weights.valid()) return reduce_sum(unit * 0.0F, {.axes = {-1}}) + 1.0F;
    return gather(weights, labels) * kept + mean(weights) * options.label_smoothing;
  }
  const Value sums = reduce_sum(weights.valid() ? labels * weights : labels, {.axes = {-1}}) * kept;
  return weights.valid() ? sums + mean(weights) * options.label_smoothing : sums + options.label_smoothing;
}

// dlogits = dloss (p Q - q), p = softmax(logits), Q the sums of q. Of dloss: sum g (p Q - q). Of the logits: dloss Q
// times the gradient of softmax; the statistics, functions of the logits, are counted there.
std::vector<Value> softmax_cross_entropy_grad_gradient(const GradientRequest& r) {
  check_own_statistics(r, 1, "softmax_cross_entropy", 2);
  refuse_labels(r, 3);
  // The loss is f32 whatever the logits are.
  const auto exact = [](Value x) { return x.dtype() == Dtype::bf16 ? cast(x, Dtype::f32) : x; };
  const Value g = exact(r.dy()), dloss = r.input(0), logits = exact(r.input(2)), labels = r.input(3);
  const SoftmaxCrossEntropyOptions options = options_of(r, 4);
  const Value unit = exact(softmax_cross_entropy_grad(full_like(dloss, 1), r.input(1), r.input(2), labels, options));
  std::vector<Value> gradients(r.wanted.size());
  if (r.wanted[0]) gradients[0] = reduce_sum(g * unit, {.axes = {-1}});
  if (r.wanted[2]) {
    // The labels may know the number of rows, and the logits not.
    const Value per_row = dloss * reshape_like(label_sums(labels, options, unit), dloss);
    gradients[2] = softmax_grad(g, softmax(logits)) * reduce_grad(per_row, logits, {Reduction::sum, {.axes = {-1}}});
    if (r.input(2).dtype() == Dtype::bf16) gradients[2] = cast(gradients[2], Dtype::bf16);
  }
  return gradients;
}

}  // namespace

void add_softmax_gradients(GradientRegistry& registry) {
  // From the output, so that both may be computed in place.
  registry.add("softmax", [](const GradientRequest& r) { return std::vector{softmax_grad(r.dy(), r.node.output())}; });
  registry.add("log_softmax",
               [](const GradientRequest& r) { return std::vector{log_softmax_grad(r.dy(), r.node.output())}; });
  registry.add("softmax_grad", softmax_grad_gradient);
  registry.add("log_softmax_grad", log_softmax_grad_gradient);
  registry.add("softmax_cross_entropy", softmax_cross_entropy_gradient);
  registry.add("softmax_cross_entropy_grad", softmax_cross_entropy_grad_gradient, {.zero_inputs = {1}});
}

}  // namespace sectionflow
