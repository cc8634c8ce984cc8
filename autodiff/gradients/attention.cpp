#include "graph/ops/attention.h"

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "autodiff/compose.h"
#include "autodiff/gradient_registry.h"
#include "graph/functions.h"
#include "graph/nodes/attention.h"
#include "graph/nodes/layout.h"
#include "graph/nodes/softmax.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/dropout.h"
#include "graph/ops/layout.h"
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
  const AttentionOptions options = attention_options_of(r.node, 3);
  const bool wants_mask = r.wanted.size() > 3 && r.wanted.back();
  const std::uint32_t ordinal = options.dropout > 0 ? r.node.random_ordinal() : 0;
  const auto g =
      attention_grad(r.dy(), r.input(0), r.input(1), r.input(2), r.node.output(1), options, wants_mask, ordinal);
  std::vector<Value> gradients(r.wanted.size());
  gradients[0] = g.dq, gradients[1] = g.dk, gradients[2] = g.dv;
  if (wants_mask) gradients.back() = g.dmask;
  return gradients;
}

/// x, which is like `like` along these axes, with what that knows of their sizes.
Value told_by(Value x, Value like, std::initializer_list<int> axes) {
  for (const int axis : axes) {
    if (x.shape()[axis] != kDynamic || like.shape()[axis] == kDynamic) continue;
    x = same_size(x, like, {.axis = axis, .like_axis = axis, .what = text_of("attention: dimension ", axis)});
  }
  return x;
}

/// A gradient node of attention that is differentiated: its inputs dy, q, k, v in f32, and options, of each of which
/// the sizes are known that any of them tells.
struct Attended {
  const GradientRequest& r;
  AttentionOptions options;
  Value dy, q, k, v;
  std::int64_t heads = 0, groups = 0, queries = 0, keys = 0;  // H, G, T, S

  explicit Attended(const GradientRequest& request)
      : r(request),
        options(attention_options_of(r.node, 5)),
        dy(in_dtype(r.input(0), Dtype::f32)),
        q(in_dtype(r.input(1), Dtype::f32)),
        k(in_dtype(r.input(2), Dtype::f32)),
        v(in_dtype(r.input(3), Dtype::f32)) {
    tell_sizes();
    heads = q.shape()[1], groups = k.shape()[1], queries = q.shape()[2], keys = k.shape()[2];
    check_sizes();
    if (heads != kDynamic || groups != kDynamic) return;
    const std::string what = text_of(
        r.node.label(), ": built without numbers of heads, a second derivative is for one of q, k and v, which");
    k = same_size(k, q, {.axis = 1, .like_axis = 1, .what = what});
  }

  /// Sizes of q tell those of dy, k and v, and the other way about.
  void tell_sizes() {
    constexpr const char* kKeys = "attention: the number of keys";
    Value &lengths = options.key_lengths, &mask = options.mask;
    q = told_by(told_by(told_by(q, dy, {0, 1, 2, 3}), k, {0, 3}), v, {0, 3});
    k = told_by(k, v, {1, 2});
    if (lengths.valid()) q = told_by(q, lengths, {0});
    if (mask.valid()) {
      for (int axis = -mask.shape().rank(); axis < -1; ++axis) {
        if (mask.shape()[axis] != 1) q = told_by(q, mask, {axis});
      }
      const bool mask_knows = mask.shape()[-1] != kDynamic, k_knows = k.shape()[2] != kDynamic;
      if (mask_knows && !k_knows) k = same_size(k, mask, {.axis = 2, .like_axis = -1, .what = kKeys});
      if (k_knows && !mask_knows) mask = same_size(mask, k, {.axis = -1, .like_axis = 2, .what = kKeys});
    }
    k = told_by(k, q, {0, 3});
    v = told_by(v, k, {0, 1, 2, 3});
    dy = told_by(dy, q, {0, 1, 2, 3});
    if (lengths.valid()) lengths = told_by(lengths, q, {0});
  }

  /// Throws: ArgumentError (SF-E031) for what cannot be composed without sizes that are not known.
  void check_sizes() const {
    const bool by_place = options.causal || options.window > 0, has_groups = heads != groups;
    std::string unknown;
    const auto want = [&](bool wanted, std::int64_t size, const char* name) {
      if (wanted && size == kDynamic) unknown += text_of(unknown.empty() ? "" : ", ", name);
    };
    want(has_groups, heads, "H");
    want(has_groups, groups, "G");
    want(by_place || has_groups, queries, "T");
    want(by_place || options.key_lengths.valid(), keys, "S");
    // A reshape to groups works one size out.
    const bool is_open = has_groups && q.shape()[0] == kDynamic;
    want(is_open && (keys == kDynamic || q.shape()[3] == kDynamic), kDynamic, "N");
    want(!options.scale, q.shape()[3], "D, where no scale is given");
    for (int axis = options.mask.valid() ? -options.mask.shape().rank() : -1; axis < -1; ++axis) {
      // It may be 1 or as large as the other.
      want(q.shape()[axis] != kDynamic, options.mask.shape()[axis], "the mask's own");
    }
    SF_CHECK_CODE(unknown.empty(), ArgumentError, ErrorCode::no_gradient_rule, r.node.label(),
                  " has a second derivative where sizes are known before a run, here ", unknown, "; came q ",
                  r.input(1).shape(), ", k ", r.input(2).shape(), " and v ", r.input(3).shape(),
                  hint("give the placeholders these sizes, or compose attention of matmul, select and softmax"));
  }

  /// x [N, H, T, X] as [N, G, H / G T, X]: for products with keys, values, and what is like them.
  Value by_groups(Value x) const {
    if (heads == groups) return x;
    return reshape(x, {x.shape()[0], groups, heads / groups * queries, x.shape()[3]});
  }
  /// The opposite.
  Value by_heads(Value x) const {
    if (heads == groups) return x;
    return reshape(x, {x.shape()[0], heads, queries, x.shape()[3]});
  }
  /// x [N, H, T, D] times the transpose of y [N, G, S, D].
  Value by_keys(Value x, Value y) const { return by_heads(matmul(by_groups(x), y, {.transpose_b = true})); }
  /// x [N, H, T, S] times y [N, G, S, D].
  Value times_keys(Value x, Value y) const { return by_heads(matmul(by_groups(x), y)); }
  /// The transpose of x [N, H, T, S] times y [N, H, T, D], summed over the heads of each group.
  Value by_queries(Value x, Value y) const { return matmul(by_groups(x), by_groups(y), {.transpose_a = true}); }

  /// What is left of x [N, H, T, S] of what the forward op dropped there.
  Value dropped(Value x) const {
    const auto& kept = r.node.options<AttentionNodeOptions>();
    return kept.drops() ? dropout_grad(x, options.is_training, {kept.dropout, kept.ordinal}) : x;
  }

  /// [T, S]: whether query t sees key s by its place.
  Value seen_by_place() const {
    const bool ends_alike = options.alignment == CausalAlignment::last_key;
    const std::int64_t first = ends_alike ? keys - queries : 0;  // where the first query stands
    HostTensor mask(Dtype::boolean, {queries, keys});
    for (std::int64_t i = 0; i < queries * keys; ++i) {
      const std::int64_t behind = i % keys - first - i / keys;  // of the query's own place
      const bool in_window = options.window == 0 || std::abs(behind) < options.window;
      mask.values<bool>()[static_cast<std::size_t>(i)] = in_window && (!options.causal || behind <= 0);
    }
    return constant(r.node.graph(), std::move(mask));
  }
  /// What hides keys by data, if anything does: it broadcasts to [N, H, T, S].
  Value seen_by_data() const {
    Value seen;
    if (options.key_lengths.valid()) {
      seen = reshape(sequence_mask(options.key_lengths, keys), {options.key_lengths.shape()[0], 1, 1, keys});
    }
    if (!options.mask.valid()) return seen;
    const Value of_mask = options.mask.dtype() == Dtype::boolean ? options.mask : greater_equal(options.mask, lowest());
    return seen.valid() ? logical_and(seen, of_mask) : of_mask;
  }
  /// As far below as an infinity, which value checks would refuse: where a query sees a key, exp gives 0 for both.
  Value lowest() const { return constant(r.node.graph(), std::numeric_limits<float>::lowest()); }

  /// softmax(scale q k^T + mask), as a whole: [N, H, T, S].
  Value probabilities(Value q, Value k, float scale) const {
    Value scores = by_keys(q, k) * scale;
    if (options.mask.valid() && options.mask.dtype() == Dtype::f32) scores = scores + options.mask;
    Value seen = options.causal || options.window > 0 ? seen_by_place() : Value();
    const Value by_data = seen_by_data();
    if (by_data.valid()) seen = seen.valid() ? logical_and(seen, by_data) : by_data;
    if (!seen.valid()) return softmax(scores);
    const Value p = softmax(select(seen, scores, lowest()));
    // Perhaps some query sees none.
    const bool may_hide_all = by_data.valid() || options.window > 0;
    return may_hide_all ? select(seen, p, constant(r.node.graph(), 0.0F)) : p;
  }
};

/// The gradient of what is like `like`, in f32, if there is one.
Value optional_f32(Value gradient, Value like) {
  return gradient.valid() ? told_by(in_dtype(gradient, Dtype::f32), like, {0, 1, 2, 3}) : gradient;
}
/// A gradient of the input's very type, if there is one.
Value of_input(Value gradient, Value input) {
  if (!gradient.valid()) return gradient;
  return in_dtype(gradient.shape() == input.shape() ? gradient : reshape_like(gradient, input), input.dtype());
}

/// With P the probabilities, M what drops some of them, D = M(dy v^T), E = P (D - sum P D): dq = s E k, dk = s E^T q,
/// dv = M(P)^T dy, dmask = E. With the gradients a, b, c, e of dq, dk, dv, dmask the sum of all products is
/// <E, A> + <M(P), dy c^T>, A = s (a k^T + q b^T) + e, which is differentiated through E and P to dy, q, k, v and the
/// mask.
std::vector<Value> attention_grad_gradient(const GradientRequest& r) {
  const Attended at(r);
  const AttentionOptions& options = at.options;
  check_own_statistics(r, 4, options.dropout > 0 ? "attention_dropout" : "attention", 1, 2);
  const Value dy = at.dy, q = at.q, k = at.k, v = at.v;
  const Value a = optional_f32(r.output_gradients[0], q), b = optional_f32(r.output_gradients[1], k),
              c = optional_f32(r.output_gradients[2], v);
  Value e = r.output_gradients.size() > 3 ? r.output_gradients[3] : Value();
  if (e.valid()) e = told_by(e, options.mask, {-1});
  const float scale = options.scale.value_or(1 / std::sqrt(static_cast<float>(q.shape()[3])));
  const Value p = at.probabilities(q, k, scale);
  Value of_p, of_dy, of_v, of_q, of_k;
  if (a.valid() || b.valid() || e.valid()) {
    Value weights;  // A
    if (a.valid()) weights = at.by_keys(a, k);
    if (b.valid()) weights = plus(weights, at.by_keys(q, b));
    if (weights.valid()) weights = weights * scale;
    if (e.valid()) weights = plus(weights, broadcast_like(e, p));
    const Value d = at.dropped(at.by_keys(dy, v));
    const Value of_d = at.dropped(softmax_grad(weights, p)), of_scores = softmax_grad(d, p);  // the latter is E
    const Value row = reduce_sum(d * p, {.axes = {-1}, .keep_dims = true});
    of_p = weights * (d - row) - d * reduce_sum(weights * p, {.axes = {-1}, .keep_dims = true});
    of_dy = at.times_keys(of_d, v);
    of_v = at.by_queries(of_d, dy);
    if (b.valid()) of_q = at.times_keys(of_scores, b) * scale;
    if (a.valid()) of_k = at.by_queries(of_scores, a) * scale;
  }
  if (c.valid()) {
    of_p = plus(of_p, at.dropped(at.by_keys(dy, c)));
    of_dy = plus(of_dy, at.times_keys(at.dropped(p), c));
  }
  const Value of_sums = softmax_grad(of_p, p), of_scores = of_sums * scale;
  of_q = plus(of_q, at.times_keys(of_scores, k));
  of_k = plus(of_k, at.by_queries(of_scores, q));
  std::vector<Value> gradients(r.wanted.size());
  gradients[0] = of_input(of_dy, r.input(0));
  gradients[1] = of_input(of_q, r.input(1));
  gradients[2] = of_input(of_k, r.input(2));
  gradients[3] = of_input(of_v, r.input(3));
  if (r.wanted.size() > 5 && r.wanted.back()) {
    gradients.back() = of_input(like_input(of_sums, options.mask), r.node.inputs().back());
  }
  return gradients;
}

}  // namespace

void add_attention_gradients(GradientRegistry& registry) {
  for (const char* op : {"attention", "attention_dropout"}) registry.add(op, attention_gradient);
  for (const char* op : {"attention_grad", "attention_dropout_grad"}) {
    registry.add(op, attention_grad_gradient, {.zero_inputs = {4}, .perhaps_none = {3}});
  }
}

}  // namespace sectionflow
