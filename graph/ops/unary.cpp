#include "graph/ops/unary.h"

#include <cmath>

#include "graph/nodes/unary.h"
#include "graph/op_registry.h"
#include "graph/option_fields.h"
#include "graph/shape_rules.h"

namespace sectionflow {
namespace {

std::vector<TensorType> infer_neg(const ShapeRequest& request) {
  const TensorType& x = request.inputs[0];
  SF_CHECK(is_f32_or_bf16(x.dtype) || x.dtype == Dtype::i64, ArgumentError, request.label, " got ", x.text(),
           "; wanted f32, bf16 or i64; try cast");
  return {x};
}

Value unary(std::string_view op, Value x, Where where, std::any options = {}) {
  return x.graph().add_node(op, {x}, std::move(options), op, where).output();
}
Value gradient(std::string_view op, Value dy, Value other, std::any options = {}) {
  return other.graph().add_node(op, {dy, other}, std::move(options), op).output();
}

std::vector<TensorType> infer_clip(const ShapeRequest& request) {
  const auto& options = request.get<ClipOptions>();
  SF_CHECK(options.low <= options.high, ArgumentError, request.label, " got low ", options.low, " and high ",
           options.high, "; wanted low <= high");
  return infer_like_float(request);
}

void check_factor(const ShapeRequest& request, const char* name, float factor) {
  SF_CHECK(std::isfinite(factor) && factor >= 0, ArgumentError, request.label, " got ", name, " ", factor,
           "; wanted a finite number of at least 0");
}

std::vector<TensorType> infer_is_finite(const ShapeRequest& request) {
  check_f32_or_bf16(request);
  return {{Dtype::boolean, request.inputs[0].shape}};
}

std::vector<TensorType> infer_logical_not(const ShapeRequest& request) {
  const TensorType& x = request.inputs[0];
  SF_CHECK(x.dtype == Dtype::boolean, ArgumentError, request.label, " got ", x.text(),
           "; wanted booleans; try cast(x, Dtype::boolean)");
  return {x};
}

/// An op of one float and its gradient's, both with one number that shapes the function below 0.
template <class Options>
void add_with_gradient(OpRegistry& registry, const std::string& name, const char* factor_name, float Options::*factor) {
  const OptionsDescription description =
      described_by<Options>([=](auto& fields, auto& options) { fields(factor_name, options.*factor); });
  const auto checked = [=](auto infer) {
    return [=](const ShapeRequest& request) {
      check_factor(request, factor_name, request.get<Options>().*factor);
      return infer(request);
    };
  };
  registry.add({.name = name, .options = description, .infer = checked(infer_like_float), .parts = parts_of_elements});
  registry.add({.name = name + "_grad",
                .inputs = 2,
                .options = description,
                .infer = checked(infer_gradient_of_one),
                .parts = parts_of_elements});
}

}  // namespace

void define_unary_ops(OpRegistry& registry) {
  registry.add({.name = "neg", .infer = infer_neg, .parts = parts_of_elements});
  for (const char* name : {"exp", "log", "expm1", "log1p", "abs", "sign", "sin", "cos", "erf", "softplus"}) {
    registry.add({.name = name, .infer = infer_like_float, .parts = parts_of_elements});
  }
  for (const std::string name : {"square", "sqrt", "rsqrt", "relu", "tanh", "sigmoid", "silu", "mish", "hard_swish"}) {
    registry.add({.name = name, .infer = infer_like_float, .parts = parts_of_elements});
    registry.add({.name = name + "_grad", .inputs = 2, .infer = infer_gradient_of_one, .parts = parts_of_elements});
  }
  const OptionsDescription gelu = described_by<GeluOptions>([](auto& fields, auto& options) {
    fields.choice("approximation", options.approximation, {{Gelu::exact, "exact"}, {Gelu::tanh, "tanh"}});
  });
  registry.add({.name = "gelu", .options = gelu, .infer = infer_like_float, .parts = parts_of_elements});
  registry.add(
      {.name = "gelu_grad", .inputs = 2, .options = gelu, .infer = infer_gradient_of_one, .parts = parts_of_elements});
  add_with_gradient(registry, "leaky_relu", "negative_slope", &LeakyReluOptions::negative_slope);
  add_with_gradient(registry, "elu", "alpha", &EluOptions::alpha);
  registry.add({.name = "is_finite", .infer = infer_is_finite, .parts = parts_of_elements});
  registry.add({.name = "logical_not", .infer = infer_logical_not, .parts = parts_of_elements});
  const OptionsDescription clip = described_by<ClipOptions>([](auto& fields, auto& options) {
    fields("low", options.low);
    fields("high", options.high);
  });
  registry.add({.name = "clip", .options = clip, .infer = infer_clip, .parts = parts_of_elements});
  registry.add(
      {.name = "clip_grad", .inputs = 2, .options = clip, .infer = infer_gradient_of_one, .parts = parts_of_elements});
  registry.add(
      {.name = "cast",
       .options = described_by<CastOptions>([](auto& fields, auto& options) { fields("dtype", options.dtype); }),
       .infer =
           [](const ShapeRequest& r) {
             return std::vector<TensorType>{{r.get<CastOptions>().dtype, r.inputs[0].shape}};
           },
       .is_identity = [](const ConcreteRequest& r) { return r.inputs[0].dtype == r.outputs[0].dtype; },
       .converts = true,
       .parts = parts_of_elements});
}

Value neg(Value x, Where where) {
  return unary("neg", x, where);
}
Value square(Value x, Where where) {
  return unary("square", x, where);
}
Value sqrt(Value x, Where where) {
  return unary("sqrt", x, where);
}
Value rsqrt(Value x, Where where) {
  return unary("rsqrt", x, where);
}
Value exp(Value x, Where where) {
  return unary("exp", x, where);
}
Value log(Value x, Where where) {
  return unary("log", x, where);
}
Value expm1(Value x, Where where) {
  return unary("expm1", x, where);
}
Value log1p(Value x, Where where) {
  return unary("log1p", x, where);
}
Value abs(Value x, Where where) {
  return unary("abs", x, where);
}
Value sign(Value x, Where where) {
  return unary("sign", x, where);
}
Value sin(Value x, Where where) {
  return unary("sin", x, where);
}
Value cos(Value x, Where where) {
  return unary("cos", x, where);
}
Value erf(Value x, Where where) {
  return unary("erf", x, where);
}

Value square_grad(Value dy, Value x) {
  return gradient("square_grad", dy, x);
}
Value sqrt_grad(Value dy, Value y) {
  return gradient("sqrt_grad", dy, y);
}
Value rsqrt_grad(Value dy, Value y) {
  return gradient("rsqrt_grad", dy, y);
}

Value relu(Value x, Where where) {
  return unary("relu", x, where);
}
Value tanh(Value x, Where where) {
  return unary("tanh", x, where);
}
Value sigmoid(Value x, Where where) {
  return unary("sigmoid", x, where);
}
Value silu(Value x, Where where) {
  return unary("silu", x, where);
}
Value gelu(Value x, GeluOptions options, Where where) {
  return unary("gelu", x, where, options);
}
Value softplus(Value x, Where where) {
  return unary("softplus", x, where);
}
Value mish(Value x, Where where) {
  return unary("mish", x, where);
}
Value hard_swish(Value x, Where where) {
  return unary("hard_swish", x, where);
}
Value leaky_relu(Value x, LeakyReluOptions options, Where where) {
  return unary("leaky_relu", x, where, options);
}
Value elu(Value x, EluOptions options, Where where) {
  return unary("elu", x, where, options);
}

Value relu_grad(Value dy, Value y) {
  return gradient("relu_grad", dy, y);
}
Value tanh_grad(Value dy, Value y) {
  return gradient("tanh_grad", dy, y);
}
Value sigmoid_grad(Value dy, Value y) {
  return gradient("sigmoid_grad", dy, y);
}
Value silu_grad(Value dy, Value x) {
  return gradient("silu_grad", dy, x);
}
Value gelu_grad(Value dy, Value x, GeluOptions options) {
  return gradient("gelu_grad", dy, x, options);
}

Value leaky_relu_grad(Value dy, Value y, LeakyReluOptions options) {
  return gradient("leaky_relu_grad", dy, y, options);
}
Value elu_grad(Value dy, Value y, EluOptions options) {
  return gradient("elu_grad", dy, y, options);
}
Value mish_grad(Value dy, Value x) {
  return gradient("mish_grad", dy, x);
}
Value hard_swish_grad(Value dy, Value x) {
  return gradient("hard_swish_grad", dy, x);
}

Value is_finite(Value x, Where where) {
  return unary("is_finite", x, where);
}
Value logical_not(Value x, Where where) {
  return unary("logical_not", x, where);
}

Value clip(Value x, float low, float high, Where where) {
  return unary("clip", x, where, ClipOptions{low, high});
}
Value clip_grad(Value dy, Value x, ClipOptions options) {
  return gradient("clip_grad", dy, x, options);
}

Value cast(Value x, Dtype dtype, Where where) {
  return unary("cast", x, where, CastOptions{dtype});
}

Value before_widening(Value x) {
  const Node& node = x.node();
  if (!node.op().converts || x.dtype() != Dtype::f32 || node.phase() != Phase::training) return x;
  if (!node.control_inputs().empty() || !node.order_inputs().empty()) return x;
  const Value narrow = node.inputs().front();
  return narrow.dtype() == Dtype::bf16 ? narrow : x;
}

}  // namespace sectionflow
