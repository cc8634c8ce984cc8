#include "graph/ops/attention.h"

#include <cmath>
#include <limits>

#include "autodiff/compose.h"
#include "autodiff/gradient_registry.h"
#include "graph/nodes/attention.h"
#include "graph/nodes/softmax.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/matmul.h"
#include "graph/ops/reduce.h"
#include "graph/ops/softmax.h"
#include "graph/parameter.h"

namespace sectionflow {
namespace {

std::vector<Value> attention_gradient(const GradientRequest& r) {
  SF_CHECK_CODE(!r.output_gradients[1].valid(), ArgumentError, ErrorCode::no_gradient_rule, r.node.label(),
                ": the loss depends on the sums of exponentials themselves, which have no gradient here",
                hint("compute them from matmul and softmax"));
  const auto g =
      attention_grad(r.dy(), r.input(0), r.input(1), r.input(2), r.node.output(1), r.node.options<AttentionOptions>());
  return {g.dq, g.dk, g.dv};
}

/// [T, S]: whether query t sees key s.
Value causal_mask(const GradientRequest& r) {
  const std::int64_t queries = r.input(1).shape()[2];
  // Either of keys and values may tell how many there are.
  const std::int64_t keys = r.input(2).shape()[2] != kDynamic ? r.input(2).shape()[2] : r.input(3).shape()[2];
  SF_CHECK_CODE(
      queries != kDynamic && keys != kDynamic, ArgumentError, ErrorCode::no_gradient_rule, r.node.label(),
      ": causal attention has a second derivative where the numbers of queries and keys are known before a run; came ",
      r.input(1).shape(), " and ", r.input(2).shape(), hint("compose it of matmul, select and softmax"));
  // Keys in front of the one that the first query stands at.
  const bool ends_alike = r.node.options<AttentionOptions>().alignment == CausalAlignment::last_key;
  const std::int64_t before = ends_alike ? keys - queries : 0;
  HostTensor mask(Dtype::boolean, {queries, keys});
  for (std::int64_t i = 0; i < queries * keys; ++i) {
    mask.values<bool>()[static_cast<std::size_t>(i)] = i % keys <= before + i / keys;
  }
  return constant(r.node.graph(), std::move(mask));
}

/// softmax(scale q k^T), as a whole: [N, H, T, S].
Value probabilities(const GradientRequest& r, Value q, Value k, float scale) {
  Value scores = matmul(q, k, {.transpose_b = true}) * scale;
  if (r.node.options<AttentionOptions>().causal) {
    // As far below as an infinity, which value checks would refuse: every query sees a key, and exp gives 0 for both.
    scores = select(causal_mask(r), scores, constant(q.graph(), std::numeric_limits<float>::lowest()));
  }
  return softmax(scores);
}

Value optional_f32(Value gradient) {
  return gradient.valid() ? in_dtype(gradient, Dtype::f32) : gradient;
}

/// With P the probabilities, D = dy v^T, E = P (D - sum P D): dq = s E k, dk = s E^T q, dv = P^T dy. With the gradients
/// a, b, c of dq, dk, dv the sum of all products is <E, A> + <P, dy c^T>, A = s (a k^T + q b^T), which is
/// differentiated through E and P to dy, q, k and v.
std::vector<Value> attention_grad_gradient(const GradientRequest& r) {
  check_own_statistics(r, 4, "attention", 1, 2);
  const auto& options = r.node.options<AttentionOptions>();
  const Value dy = in_dtype(r.input(0), Dtype::f32), q = in_dtype(r.input(1), Dtype::f32),
              k = in_dtype(r.input(2), Dtype::f32), v = in_dtype(r.input(3), Dtype::f32);
  const Value a = optional_f32(r.output_gradients[0]), b = optional_f32(r.output_gradients[1]),
              c = optional_f32(r.output_gradients[2]);
  const auto depth = static_cast<float>(q.shape()[3]);
  SF_CHECK_CODE(options.scale || depth > 0, ArgumentError, ErrorCode::no_gradient_rule, r.node.label(),
                ": the number of channels is not known, and no scale is given", hint("set AttentionOptions::scale"));
  const float scale = options.scale.value_or(1 / std::sqrt(depth));
  const Value p = probabilities(r, q, k, scale);
  Value of_p, of_dy, of_v, of_q, of_k;
  if (a.valid() || b.valid()) {
    Value weights;  // A
    if (a.valid()) weights = matmul(a, k, {.transpose_b = true});
    if (b.valid()) weights = plus(weights, matmul(q, b, {.transpose_b = true}));
    weights = weights * scale;
    const Value d = matmul(dy, v, {.transpose_b = true});
    const Value of_d = softmax_grad(weights, p), e = softmax_grad(d, p);
    const Value row = reduce_sum(d * p, {.axes = {-1}, .keep_dims = true});
    of_p = weights * (d - row) - d * reduce_sum(weights * p, {.axes = {-1}, .keep_dims = true});
    of_dy = matmul(of_d, v);
    of_v = matmul(of_d, dy, {.transpose_a = true});
    if (b.valid()) of_q = matmul(e, b) * scale;
    if (a.valid()) of_k = matmul(e, a, {.transpose_a = true}) * scale;
  }
  if (c.valid()) {
    of_p = plus(of_p, matmul(dy, c, {.transpose_b = true}));
    of_dy = plus(of_dy, matmul(p, c));
  }
  const Value of_scores = softmax_grad(of_p, p) * scale;
  of_q = plus(of_q, matmul(of_scores, k));
  of_k = plus(of_k, matmul(of_scores, q, {.transpose_a = true}));
  const Dtype dtype = r.input(1).dtype();
  return {in_dtype(of_dy, dtype), in_dtype(of_q, dtype), in_dtype(of_k, dtype),
          of_v.valid() ? in_dtype(of_v, dtype) : Value(), Value()};
}

}  // namespace

void add_attention_gradients(GradientRegistry& registry) {
  registry.add("attention", attention_gradient);
  registry.add("attention_grad", attention_grad_gradient, {.zero_inputs = {4}, .perhaps_none = {3}});
}

}  // namespace sectionflow
