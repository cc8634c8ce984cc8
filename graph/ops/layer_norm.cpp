#include "graph/ops/layer_norm.h"

#include "graph/norm_rules.h"
#include "graph/op_registry.h"
#include "graph/option_fields.h"

namespace sectionflow {
namespace {

/// One number a row of x.
Shape per_row(const Shape& x) {
  return Shape(std::vector<std::int64_t>(x.dims().begin(), x.dims().end() - 1));
}

// Inputs: x, scale and, of layer_norm, shift.
template <class Options>
std::vector<TensorType> infer_norm(const ShapeRequest& request) {
  check_norm_epsilon(request.get<Options>().epsilon, request.label);
  check_norm_dtypes(request, 1, request.inputs.size());
  const Shape& x = request.inputs[0].shape;
  SF_CHECK(x.rank() >= 1 && x[-1] != 0, ShapeError, request.label, " got ", x,
           "; wanted [..., C] of rank 1 or more with C > 0");
  std::vector<TensorType> outputs = {request.inputs[0]};
  for (std::size_t input = 1; input < request.inputs.size(); ++input) {  // a statistic for each of them
    check_beside(request, input, x, {x[-1]});
    outputs.push_back({Dtype::f32, per_row(x)});
  }
  return outputs;
}

// Inputs: dy, x, scale, the statistics.
std::vector<TensorType> infer_norm_grad(const ShapeRequest& request) {
  check_norm_dtypes(request, 2, request.inputs.size());
  const TensorType& x = request.inputs[1];
  check_norm_gradient(request, request.inputs[0], x);
  SF_CHECK(x.shape.rank() >= 1, ShapeError, request.label, " got x ", x.text(), "; wanted [..., C]");
  check_beside(request, 2, x.shape, {x.shape[-1]});
  std::vector<TensorType> outputs = {x};
  for (std::size_t input = 3; input < request.inputs.size(); ++input) {
    check_beside(request, input, x.shape, per_row(x.shape));
    outputs.push_back(request.inputs[2]);
  }
  return outputs;
}

/// A vector is one row, of the channels alone.
std::optional<RowParts> norm_parts(const ConcreteRequest& request) {
  if (request.inputs[0].shape.rank() < 2) return std::nullopt;
  RowParts parts{.inputs = std::vector(request.inputs.size(), PartUse::whole),
                 .outputs = std::vector(request.inputs.size(), PartUse::rows)};
  parts.inputs[0] = PartUse::rows;
  return parts;
}

template <class Options>
OptionsDescription norm_options() {
  return described_by<Options>([](auto& fields, auto& options) { fields("epsilon", options.epsilon); });
}

}  // namespace

void define_layer_norm_ops(OpRegistry& registry) {
  registry.add({.name = "layer_norm",
                .inputs = 3,
                .options = norm_options<LayerNormOptions>(),
                .infer = infer_norm<LayerNormOptions>,
                .parts = norm_parts,
                .kept_outputs = {1, 2}});
  registry.add({.name = "layer_norm_grad", .inputs = 5, .infer = infer_norm_grad});
  registry.add({.name = "rms_norm",
                .inputs = 2,
                .options = norm_options<RmsNormOptions>(),
                .infer = infer_norm<RmsNormOptions>,
                .parts = norm_parts,
                .kept_outputs = {1}});
  registry.add({.name = "rms_norm_grad", .inputs = 4, .infer = infer_norm_grad});
}

Value layer_norm(Value x, Value scale, Value shift, const LayerNormOptions& options, Where where) {
  return x.graph().build_at(where, [&] {
    check_unnamed("layer_norm", options);
    return x.graph().add_node("layer_norm", {x, scale, shift}, options, "layer_norm").output();
  });
}

LayerNormGradients layer_norm_grad(Value dy, Value x, Value scale, Value mean, Value rstd) {
  Node& node = x.graph().add_node("layer_norm_grad", {dy, x, scale, mean, rstd}, {}, "layer_norm_grad");
  return {node.output(0), node.output(1), node.output(2)};
}

Value rms_norm(Value x, Value scale, const RmsNormOptions& options, Where where) {
  return x.graph().build_at(where, [&] {
    check_unnamed("rms_norm", options);
    return x.graph().add_node("rms_norm", {x, scale}, options, "rms_norm").output();
  });
}

RmsNormGradients rms_norm_grad(Value dy, Value x, Value scale, Value rstd) {
  Node& node = x.graph().add_node("rms_norm_grad", {dy, x, scale, rstd}, {}, "rms_norm_grad");
  return {node.output(0), node.output(1)};
}

}  // namespace sectionflow
