#include "graph/ops/attention.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "graph/nodes/attention.h"
#include "graph/op_registry.h"
#include "graph/ops/basic.h"
#include "graph/option_fields.h"
#include "graph/shape_rules.h"

namespace sectionflow {
namespace {

/// Throws: ShapeError where it is not said which keys a query sees, or where one sees none.
void check_alignment(const AttentionNodeOptions& options, std::int64_t queries, std::int64_t keys,
                     const std::string& label) {
  SF_CHECK(options.window >= 0, ArgumentError, label, ": window is ", options.window,
           "; wanted > 0, or 0 for all keys");
  SF_CHECK(options.is_bounded() || options.alignment == CausalAlignment::equal, ArgumentError, label,
           ": an alignment of queries and keys is given without causal; wanted both or none, or a window");
  if (!options.is_bounded() || queries == kDynamic || keys == kDynamic) return;
  SF_CHECK(options.alignment != CausalAlignment::equal || queries == keys, ShapeError, label, ": ",
           options.causal ? "causal" : "a window", ", with ", queries, " queries and ", keys,
           " keys: which of the keys does the first query stand at?",
           hint("say CausalAlignment::last_key, as behind a cache of keys, or CausalAlignment::first_key"));
  SF_CHECK(options.alignment != CausalAlignment::last_key || queries <= keys, ShapeError, label,
           ": CausalAlignment::last_key with ", queries, " queries and ", keys, " keys: the first ", queries - keys,
           " queries would see no key; wanted no more queries than keys");
}

/// Puts what `dim` knows into `known`, which is unknown or the same. Returns whether it is.
bool learn(std::int64_t& known, std::int64_t dim) {
  if (dim == kDynamic) return true;
  if (known == kDynamic) known = dim;
  return known == dim;
}

/// Checks q, k, v, the inputs from `first` on; returns what all of them know of y's type.
TensorType infer_y(const ShapeRequest& request, std::size_t first) {
  const TensorType &q = request.inputs[first], &k = request.inputs[first + 1], &v = request.inputs[first + 2];
  const auto came = [&] { return text_of(" got q ", q.text(), ", k ", k.text(), " and v ", v.text()); };
  SF_CHECK(is_f32_or_bf16(q.dtype) && k.dtype == q.dtype && v.dtype == q.dtype, ArgumentError, request.label, came(),
           "; wanted f32 or bf16, all of one dtype; try cast");
  SF_CHECK(q.shape.rank() == 4 && k.shape.rank() == 4 && may_agree(k, v), ShapeError, request.label, came(),
           "; wanted q [N, H, T, D] and k, v [N, G, S, D]; try reshape and transpose");
  std::vector<std::int64_t> y = q.shape.dims();
  for (const TensorType* other : {&k, &v}) {
    for (int axis : {0, 3}) {
      std::int64_t& of_y = y[static_cast<std::size_t>(axis)];
      SF_CHECK(learn(of_y, other->shape[axis]), ShapeError, request.label, came(), "; dimension ", axis, " is ", of_y,
               " and ", other->shape[axis], "; wanted equal numbers of images and channels");
    }
    const std::int64_t groups = other->shape[1];
    SF_CHECK(groups == kDynamic || y[1] == kDynamic || (groups == 0 || y[1] == 0 ? y[1] == groups : y[1] % groups == 0),
             ShapeError, request.label, came(), "; dimension 1 is ", y[1], " and ", groups,
             "; wanted as many heads of keys and values as of queries, or a divisor of their number");
  }
  SF_CHECK(k.shape[2] != 0 && v.shape[2] != 0 && y[3] != 0, ShapeError, request.label, came(),
           "; wanted a key and a channel at least");
  const auto& options = request.get<AttentionNodeOptions>();
  SF_CHECK(!options.scale || std::isfinite(*options.scale), ArgumentError, request.label, ": scale is ", *options.scale,
           "; wanted a finite number");
  check_alignment(options, q.shape[2], k.shape[2] == kDynamic ? v.shape[2] : k.shape[2], request.label);
  return {q.dtype, Shape(std::move(y))};
}

/// Checks what stands behind q, k and v, or behind the log sums: the inputs from `first` on. `k`: the number of its
/// input.
void check_optional_inputs(const ShapeRequest& request, int first, std::size_t k, const TensorType& y) {
  const auto& options = request.get<AttentionNodeOptions>();
  const AttentionInputs at(request.inputs, first, options.drops());
  const auto number_at = [&](int index) { return request.inputs[static_cast<std::size_t>(index)]; };
  const int last = std::max({first - 1, at.is_training, at.key_lengths, at.mask});
  SF_CHECK(static_cast<std::size_t>(last) + 1 == request.inputs.size() && (!options.drops() || at.is_training >= 0),
           ArgumentError, request.label, " got ", request.inputs.size(),
           " inputs; wanted is_training where probabilities are dropped, then lengths of keys, i32 or i64, and a mask, "
           "bool or f32, once each");
  if (options.drops()) {
    SF_CHECK(options.dropout < 1, ArgumentError, request.label, ": dropout is ", options.dropout,
             "; wanted 0 to 1, without 1");
    SF_CHECK(number_at(at.is_training) == (TensorType{Dtype::boolean, {}}), ArgumentError, request.label,
             ": is_training is ", number_at(at.is_training).text(), "; wanted bool[], a placeholder or constant");
  }
  if (at.key_lengths >= 0) {
    const TensorType lengths = number_at(at.key_lengths);
    SF_CHECK(may_agree(lengths, {lengths.dtype, {y.shape[0]}}), ShapeError, request.label, ": key_lengths is ",
             lengths.text(), "; wanted one number an image, [", dim_text(y.shape[0]), "]");
  }
  if (at.mask < 0) return;
  const TensorType mask = number_at(at.mask);
  const Shape& keys = request.inputs[k].shape;
  const std::int64_t num_keys = keys[2] == kDynamic ? request.inputs[k + 1].shape[2] : keys[2];
  const std::int64_t whole[] = {y.shape[0], y.shape[1], y.shape[2], num_keys};
  const int rank = mask.shape.rank();
  bool fits = rank >= 1 && rank <= 4;
  for (int axis = 4 - rank; fits && axis < 4; ++axis) {
    const std::int64_t dim = mask.shape[axis - 4 + rank];
    fits = (axis < 3 && dim == 1) || dim == kDynamic || whole[axis] == kDynamic || dim == whole[axis];
  }
  SF_CHECK(fits, ShapeError, request.label, ": mask is ", mask.text(), "; wanted [", dim_text(y.shape[0]), " or 1, ",
           dim_text(y.shape[1]), " or 1, ", dim_text(y.shape[2]), " or 1, ", dim_text(num_keys),
           "], perhaps without leading dimensions");
}

/// One number a query.
TensorType per_query(const TensorType& y) {
  return {Dtype::f32, {y.shape[0], y.shape[1], y.shape[2]}};
}

// Inputs: dy, q, k, v, log sums, and what the forward op has behind q, k and v.
std::vector<TensorType> infer_gradient(const ShapeRequest& request) {
  const TensorType y = infer_y(request, 1);
  check_optional_inputs(request, 5, 2, y);
  SF_CHECK(may_agree(request.inputs[0], y) && may_agree(request.inputs[4], per_query(y)), ShapeError, request.label,
           " got dy ", request.inputs[0].text(), " and log sums ", request.inputs[4].text(), "; wanted ", y.text(),
           " and ", per_query(y).text());
  std::vector<TensorType> gradients = {request.inputs[1], request.inputs[2], request.inputs[3]};
  const auto& options = request.get<AttentionNodeOptions>();
  if (!options.mask_gradient) return gradients;
  const int mask = AttentionInputs(request.inputs, 5, options.drops()).mask;
  SF_CHECK(mask >= 0 && request.inputs.back().dtype == Dtype::f32, ArgumentError, request.label,
           " is to give the gradient of a mask; wanted a mask of f32");
  gradients.push_back(request.inputs.back());
  return gradients;
}

std::vector<TensorType> infer_attention(const ShapeRequest& request) {
  check_optional_inputs(request, 3, 1, infer_y(request, 0));
  // y like q to the letter, so that it can be added to what q is made of; that k and v are held to it feeds tell.
  return {request.inputs[0], per_query(request.inputs[0])};
}

/// Of `num_products` matrix products as large as that of queries and keys.
double attention_flops(int num_products, const TensorType& q_or_dy, const TensorType& k) {
  return 2 * num_products * static_cast<double>(q_or_dy.shape.num_elements()) * static_cast<double>(k.shape[2]);
}

/// The fields of the ops; those that one of them has beside the others, where it has them.
OptionsDescription described(bool drops, bool is_gradient) {
  return described_by<AttentionNodeOptions>([=](auto& fields, auto& options) {
    fields("causal", options.causal);
    fields.usual_choice("alignment", options.alignment,
                        {{CausalAlignment::equal, "equal"},
                         {CausalAlignment::first_key, "first_key"},
                         {CausalAlignment::last_key, "last_key"}});
    fields("scale", options.scale);
    fields.usual("window", options.window);
    if (drops) fields("dropout", options.dropout);
    if (drops && is_gradient) fields("ordinal", options.ordinal);
    if (is_gradient) fields.usual("mask_gradient", options.mask_gradient);
  });
}

void define(OpRegistry& registry, bool drops) {
  const int flag = drops ? 1 : 0;  // the input is_training
  const auto uses_behind = [drops](std::size_t first) {
    return [=](std::size_t num_inputs, HostBooleans) {
      std::vector<InputUse> uses(num_inputs, InputUse::data);
      if (drops && num_inputs > first) uses[first] = InputUse::host_boolean;
      return uses;
    };
  };
  const Recompute recompute = drops ? Recompute::seeded : Recompute::pure;
  registry.add({.name = drops ? "attention_dropout" : "attention",
                .inputs = {3 + flag, 5 + flag},
                .options = described(drops, false),
                .infer = infer_attention,
                .recompute = recompute,
                .uses = uses_behind(3),
                .kept_outputs = {1},
                .flops = [](auto inputs, auto /*outputs*/) { return attention_flops(2, inputs[0], inputs[1]); }});
  // The gradient computes the products of queries and keys again, and draws the numbers of the forward node.
  registry.add({.name = drops ? "attention_dropout_grad" : "attention_grad",
                .inputs = {5 + flag, 7 + flag},
                .options = described(drops, true),
                .infer = infer_gradient,
                .recompute = recompute,
                .uses = uses_behind(5),
                .flops = [](auto inputs, auto /*outputs*/) { return attention_flops(5, inputs[0], inputs[2]); }});
}

/// What a node keeps of the options.
AttentionNodeOptions kept(const AttentionOptions& options) {
  return {.causal = options.causal,
          .alignment = options.alignment,
          .scale = options.scale,
          .window = options.window,
          .dropout = options.dropout};
}

/// Makes a node of the inputs, and of those that the options hold.
Node& add_node(bool drops, const char* op, const char* dropping_op, std::vector<Value> inputs,
               const AttentionOptions& options, const AttentionNodeOptions& node_options) {
  Graph& graph = inputs[0].graph();
  if (drops) inputs.push_back(options.is_training.valid() ? options.is_training : graph.training());
  for (Value value : {options.key_lengths, options.mask}) {
    if (value.valid()) inputs.push_back(value);
  }
  return graph.add_node(drops ? dropping_op : op, std::move(inputs), node_options, op);
}

/// Throws: ArgumentError for options that no node would refuse.
void check_values(const AttentionOptions& options) {
  const std::string label = "attention";
  SF_CHECK(options.dropout >= 0 && options.dropout < 1, ArgumentError, label, ": dropout is ", options.dropout,
           "; wanted 0 to 1, without 1");
  if (options.is_training.valid()) check_host_boolean(options.is_training, label);
  if (options.key_lengths.valid()) {
    const TensorType& type = options.key_lengths.type();
    SF_CHECK(type.dtype == Dtype::i32 || type.dtype == Dtype::i64, ArgumentError, label, ": key_lengths is ",
             type.text(), "; wanted i32 or i64 [N]");
  }
  if (!options.mask.valid()) return;
  const TensorType& type = options.mask.type();
  SF_CHECK(type.dtype == Dtype::boolean || type.dtype == Dtype::f32, ArgumentError, label, ": mask is ", type.text(),
           "; wanted bool, of keys that are seen, or f32, to be added to scores; try cast");
}

}  // namespace

AttentionInputs::AttentionInputs(std::span<const TensorType> inputs, int first, bool drops) {
  const auto count = static_cast<int>(inputs.size());
  int next = first;
  const auto is_whole = [&](int i) {
    const Dtype dtype = inputs[static_cast<std::size_t>(i)].dtype;
    return dtype == Dtype::i32 || dtype == Dtype::i64;
  };
  if (drops && next < count) is_training = next++;
  if (next < count && is_whole(next)) key_lengths = next++;
  if (next >= count || is_whole(next)) return;
  const Dtype dtype = inputs[static_cast<std::size_t>(next)].dtype;
  if (dtype == Dtype::boolean || dtype == Dtype::f32) mask = next;
}

AttentionOptions attention_options_of(const Node& node, int first) {
  const auto& kept = node.options<AttentionNodeOptions>();
  std::vector<TensorType> types;
  for (const Value& input : node.inputs()) types.push_back(input.type());
  const AttentionInputs at(types, first, kept.drops());
  const auto input = [&](int index) { return index < 0 ? Value() : node.inputs()[static_cast<std::size_t>(index)]; };
  return {.causal = kept.causal,
          .alignment = kept.alignment,
          .scale = kept.scale,
          .window = kept.window,
          .key_lengths = input(at.key_lengths),
          .mask = input(at.mask),
          .dropout = kept.dropout,
          .is_training = input(at.is_training)};
}

void define_attention_ops(OpRegistry& registry) {
  define(registry, false);
  define(registry, true);
}

Value attention(Value q, Value k, Value v, AttentionOptions options, Where where) {
  std::vector<Value> given = {q, k, v};
  for (Value value : {options.key_lengths, options.mask, options.is_training}) {
    if (value.valid()) given.push_back(value);
  }
  return q.graph().build_at(where, given, [&] {
    check_values(options);
    return add_node(options.dropout > 0, "attention", "attention_dropout", {q, k, v}, options, kept(options)).output();
  });
}

AttentionGradients attention_grad(Value dy, Value q, Value k, Value v, Value log_sums, const AttentionOptions& options,
                                  bool mask_gradient, std::uint32_t ordinal) {
  AttentionNodeOptions node_options = kept(options);
  node_options.mask_gradient = mask_gradient;
  node_options.ordinal = ordinal;
  Node& node = add_node(options.dropout > 0, "attention_grad", "attention_dropout_grad", {dy, q, k, v, log_sums},
                        options, node_options);
  return {node.output(0), node.output(1), node.output(2), mask_gradient ? node.output(3) : Value()};
}

}  // namespace sectionflow
