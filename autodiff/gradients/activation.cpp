#include "graph/ops/activation.h"

#include <cmath>

#include "autodiff/gradient_registry.h"
#include "graph/ops/arithmetic.h"

namespace sectionflow {
namespace {

using Product = Value (*)(Value dy, Value other);

// dx = dy f(z) with z = x or y: the gradient of dy is g f(z), by the same op, and that of z is g dy f'(z). The
// rectifier's f is constant in steps.
std::vector<Value> relu_grad_gradient(const GradientRequest& r) {
  return {relu_grad(r.dy(), r.input(1)), Value()};
}

/// `kDerivative(z)` gives f'(z).
template <Product kSame, Value (*kDerivative)(Value z)>
std::vector<Value> product_gradient(const GradientRequest& r) {
  const Value g = r.dy(), dy = r.input(0), z = r.input(1);
  return {r.wanted[0] ? kSame(g, z) : Value(), r.wanted[1] ? g * dy * kDerivative(z) : Value()};
}

Value tanh_second(Value y) {
  return y * -2.0F;
}
Value sigmoid_second(Value y) {
  return 1.0F - y * 2.0F;
}
// With s = sigmoid(x): s (1 - s) (2 + x (1 - 2 s)).
Value silu_second(Value x) {
  const Value s = sigmoid(x);
  return s * (1.0F - s) * (x * (1.0F - s * 2.0F) + 2.0F);
}

// With the normal density p: p(x) (2 - x^2).
Value exact_gelu_second(Value x) {
  const Value squared = square(x);
  const auto scale = static_cast<float>(1 / std::sqrt(2 * M_PI));
  return exp(squared * -0.5F) * (2.0F - squared) * scale;
}

// With u = k (x + c x^3) and t = tanh(u): (1 - t^2) (u' + x (u'' / 2 - t u'^2)).
Value tanh_gelu_second(Value x) {
  const auto k = static_cast<float>(std::sqrt(2 / M_PI));
  constexpr float c = 0.044715F;
  const Value squared = square(x);
  const Value t = tanh((x + x * squared * c) * k);
  const Value u1 = (squared * (3 * c) + 1.0F) * k;
  const Value half_u2 = x * (3 * c * k);
  return (1.0F - square(t)) * (u1 + x * (half_u2 - t * square(u1)));
}

std::vector<Value> gelu_grad_gradient(const GradientRequest& r) {
  const auto& options = r.node.options<GeluOptions>();
  const Value g = r.dy(), dy = r.input(0), x = r.input(1);
  const auto second = options.approximation == Gelu::exact ? exact_gelu_second : tanh_gelu_second;
  return {r.wanted[0] ? gelu_grad(g, x, options) : Value(), r.wanted[1] ? g * dy * second(x) : Value()};
}

}  // namespace

// From the output where it tells enough, so that the activation may be computed in place.
void add_activation_gradients(GradientRegistry& registry) {
  registry.add("relu", [](const GradientRequest& r) { return std::vector{relu_grad(r.dy(), r.node.output())}; });
  registry.add("tanh", [](const GradientRequest& r) { return std::vector{tanh_grad(r.dy(), r.node.output())}; });
  registry.add("sigmoid", [](const GradientRequest& r) { return std::vector{sigmoid_grad(r.dy(), r.node.output())}; });
  registry.add("silu", [](const GradientRequest& r) { return std::vector{silu_grad(r.dy(), r.input(0))}; });
  registry.add("gelu", [](const GradientRequest& r) {
    return std::vector{gelu_grad(r.dy(), r.input(0), r.node.options<GeluOptions>())};
  });
  registry.add("relu_grad", relu_grad_gradient, {.zero_inputs = {1}});
  registry.add("tanh_grad", product_gradient<tanh_grad, tanh_second>);
  registry.add("sigmoid_grad", product_gradient<sigmoid_grad, sigmoid_second>);
  registry.add("silu_grad", product_gradient<silu_grad, silu_second>);
  registry.add("gelu_grad", gelu_grad_gradient);
}

}  // namespace sectionflow
