#include "graph/ops/attention.h"

#include <cmath>

#include "graph/nodes/attention.h"
#include "graph/op_registry.h"
#include "graph/option_fields.h"
#include "graph/shape_rules.h"

namespace sectionflow {
namespace {

/// Throws: ShapeError where it is not said which keys a query sees, or where one sees none.
void check_alignment(const AttentionOptions& options, std::int64_t queries, std::int64_t keys,
                     const std::string& label) {
  SF_CHECK(options.causal || options.alignment == CausalAlignment::equal, ArgumentError, label,
           ": an alignment of queries and keys is given without causal; wanted both or none");
  if (!options.causal || queries == kDynamic || keys == kDynamic) return;
  SF_CHECK(options.alignment != CausalAlignment::equal || queries == keys, ShapeError, label, ": causal, with ",
           queries, " queries and ", keys, " keys: which of the keys does the first query stand at?",
           hint("say CausalAlignment::last_key, as behind a cache of keys, or CausalAlignment::first_key"));
  SF_CHECK(options.alignment != CausalAlignment::last_key || queries <= keys, ShapeError, label,
           ": CausalAlignment::last_key with ", queries, " queries and ", keys, " keys: the first ", queries - keys,
           " queries would see no key; wanted no more queries than keys");
}

/// Checks q, k, v, the inputs from `first` on; returns the type of y, with what k and v know of it.
TensorType infer_y(const ShapeRequest& request, std::size_t first) {
  const TensorType &q = request.inputs[first], &k = request.inputs[first + 1], &v = request.inputs[first + 2];
  const auto came = [&] { return text_of(" got q ", q.text(), ", k ", k.text(), " and v ", v.text()); };
  SF_CHECK(is_f32_or_bf16(q.dtype) && k.dtype == q.dtype && v.dtype == q.dtype, ArgumentError, request.label, came(),
           "; wanted f32 or bf16, all of one dtype; try cast");
  SF_CHECK(q.shape.rank() == 4 && k.shape.rank() == 4 && may_agree(k, v), ShapeError, request.label, came(),
           "; wanted q [N, H, T, D] and k, v [N, H, S, D]; try reshape and transpose");
  std::vector<std::int64_t> y = q.shape.dims();
  for (int axis : {0, 1, 3}) {
    for (const TensorType* other : {&k, &v}) {
      const std::int64_t dim = other->shape[axis];
      std::int64_t& of_y = y[static_cast<std::size_t>(axis)];
      SF_CHECK(dim == of_y || dim == kDynamic || of_y == kDynamic, ShapeError, request.label, came(), "; dimension ",
               axis, " is ", of_y, " and ", dim, "; wanted equal numbers of images, heads and channels");
      if (of_y == kDynamic) of_y = dim;
    }
  }
  SF_CHECK(k.shape[2] != 0 && v.shape[2] != 0 && y[3] != 0, ShapeError, request.label, came(),
           "; wanted a key and a channel at least");
  const auto& scale = request.get<AttentionOptions>().scale;
  SF_CHECK(!scale || std::isfinite(*scale), ArgumentError, request.label, ": scale is ", *scale,
           "; wanted a finite number");
  check_alignment(request.get<AttentionOptions>(), q.shape[2], k.shape[2] == kDynamic ? v.shape[2] : k.shape[2],
                  request.label);
  return {q.dtype, Shape(std::move(y))};
}

/// One number a query.
TensorType per_query(const TensorType& y) {
  return {Dtype::f32, {y.shape[0], y.shape[1], y.shape[2]}};
}

// Inputs: dy, q, k, v, log sums.
std::vector<TensorType> infer_gradient(const ShapeRequest& request) {
  const TensorType y = infer_y(request, 1);
  SF_CHECK(may_agree(request.inputs[0], y) && may_agree(request.inputs[4], per_query(y)), ShapeError, request.label,
           " got dy ", request.inputs[0].text(), " and log sums ", request.inputs[4].text(), "; wanted ", y.text(),
           " and ", per_query(y).text());
  return {request.inputs[1], request.inputs[2], request.inputs[3]};
}

/// Of `num_products` matrix products as large as that of queries and keys.
double attention_flops(int num_products, const TensorType& q_or_dy, const TensorType& k) {
  return 2 * num_products * static_cast<double>(q_or_dy.shape.num_elements()) * static_cast<double>(k.shape[2]);
}

}  // namespace

void define_attention_ops(OpRegistry& registry) {
  const OptionsDescription options = described_by<AttentionOptions>([](auto& fields, auto& described) {
    fields("causal", described.causal);
    fields.usual_choice("alignment", described.alignment,
                        {{CausalAlignment::equal, "equal"},
                         {CausalAlignment::first_key, "first_key"},
                         {CausalAlignment::last_key, "last_key"}});
    fields("scale", described.scale);
  });
  registry.add({.name = "attention",
                .inputs = 3,
                .options = options,
                .infer =
                    [](const ShapeRequest& r) {
                      const TensorType y = infer_y(r, 0);
                      return std::vector{y, per_query(y)};
                    },
                .kept_outputs = {1},
                .flops = [](auto inputs, auto /*outputs*/) { return attention_flops(2, inputs[0], inputs[1]); }});
  // The gradient computes the products of queries and keys again.
  registry.add({.name = "attention_grad",
                .inputs = 5,
                .options = options,
                .infer = infer_gradient,
                .flops = [](auto inputs, auto /*outputs*/) { return attention_flops(5, inputs[0], inputs[2]); }});
}

Value attention(Value q, Value k, Value v, AttentionOptions options, Where where) {
  return q.graph().add_node("attention", {q, k, v}, options, "attention", where).output();
}

AttentionGradients attention_grad(Value dy, Value q, Value k, Value v, Value log_sums, AttentionOptions options) {
  Node& node = q.graph().add_node("attention_grad", {dy, q, k, v, log_sums}, options, "attention_grad");
  return {node.output(0), node.output(1), node.output(2)};
}

}  // namespace sectionflow
