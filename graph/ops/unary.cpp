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

// Functions of x alone have the names of their ops, and so have their gradients.
#define SF_UNARY(name)               \
  Value name(Value x, Where where) { \
    return unary(#name, x, where);   \
  }
#define SF_UNARY_GRADIENT(name)                \
  Value name##_grad(Value dy, Value other) {   \
    return gradient(#name "_grad", dy, other); \
  }
SF_UNARY(neg)
SF_UNARY(square)
SF_UNARY(sqrt)
SF_UNARY(rsqrt)
SF_UNARY(exp)
SF_UNARY(log)
SF_UNARY(expm1)
SF_UNARY(log1p)
SF_UNARY(abs)
SF_UNARY(sign)
SF_UNARY(sin)
SF_UNARY(cos)
SF_UNARY(erf)
SF_UNARY(relu)
SF_UNARY(tanh)
SF_UNARY(sigmoid)
SF_UNARY(silu)
SF_UNARY(softplus)
SF_UNARY(mish)
SF_UNARY(hard_swish)
SF_UNARY(is_finite)
SF_UNARY(logical_not)
SF_UNARY_GRADIENT(square)
SF_UNARY_GRADIENT(sqrt)
SF_UNARY_GRADIENT(rsqrt)
SF_UNARY_GRADIENT(relu)
SF_UNARY_GRADIENT(tanh)
SF_UNARY_GRADIENT(sigmoid)
SF_UNARY_GRADIENT(silu)
SF_UNARY_GRADIENT(mish)
SF_UNARY_GRADIENT(hard_swish)
#undef SF_UNARY
#undef SF_UNARY_GRADIENT

Value gelu(Value x, GeluOptions options, Where where) {
  return unary("gelu", x, where, options);
}
Value leaky_relu(Value x, LeakyReluOptions options, Where where) {
  return unary("leaky_relu", x, where, options);
}
Value elu(Value x, EluOptions options, Where where) {
  return unary("elu", x, where, options);
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
