#include "graph/ops/activation.h"

#include "graph/elementwise.h"
#include "graph/op_registry.h"
#include "graph/option_fields.h"

namespace sectionflow {
namespace {

Value activation(std::string_view op, Value x, std::any options, Where where) {
  return x.graph().add_node(op, {x}, std::move(options), op, where).output();
}
Value gradient(std::string_view op, Value dy, Value other, std::any options = {}) {
  return other.graph().add_node(op, {dy, other}, std::move(options), op).output();
}

}  // namespace

void define_activation_ops(OpRegistry& registry) {
  for (const std::string name : {"relu", "tanh", "sigmoid", "silu"}) {
    registry.add({.name = name, .infer = infer_like_float});
    registry.add({.name = name + "_grad", .inputs = 2, .infer = infer_gradient_of_one});
  }
  const OptionsDescription gelu = described_by<GeluOptions>([](auto& fields, auto& options) {
    fields.choice("approximation", options.approximation, {{Gelu::exact, "exact"}, {Gelu::tanh, "tanh"}});
  });
  registry.add({.name = "gelu", .options = gelu, .infer = infer_like_float});
  registry.add({.name = "gelu_grad", .inputs = 2, .options = gelu, .infer = infer_gradient_of_one});
}

Value relu(Value x, Where where) {
  return activation("relu", x, {}, where);
}
Value tanh(Value x, Where where) {
  return activation("tanh", x, {}, where);
}
Value sigmoid(Value x, Where where) {
  return activation("sigmoid", x, {}, where);
}
Value silu(Value x, Where where) {
  return activation("silu", x, {}, where);
}
Value gelu(Value x, GeluOptions options, Where where) {
  return activation("gelu", x, options, where);
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

}  // namespace sectionflow
