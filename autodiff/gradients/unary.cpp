#include "graph/ops/unary.h"

#include <cmath>

#include "autodiff/compose.h"
#include "autodiff/gradient_registry.h"
#include "graph/nodes/unary.h"
#include "graph/ops/arithmetic.h"

namespace sectionflow {
namespace {

// dx = 2 dy x is symmetric in dy and x.
std::vector<Value> square_grad_gradient(const GradientRequest& r) {
  return {r.wanted[0] ? square_grad(r.dy(), r.input(1)) : Value(),
          r.wanted[1] ? square_grad(r.dy(), r.input(0)) : Value()};
}

// dx = dy / (2 y). Of y: -g dy / (2 y^2).
std::vector<Value> sqrt_grad_gradient(const GradientRequest& r) {
  const Value g = r.dy(), dy = r.input(0), y = r.input(1);
  return {r.wanted[0] ? sqrt_grad(g, y) : Value(), r.wanted[1] ? neg(sqrt_grad(g, y) * dy / y) : Value()};
}

// dx = -dy y^3 / 2. Of y: -3/2 g dy y^2.
std::vector<Value> rsqrt_grad_gradient(const GradientRequest& r) {
  const Value g = r.dy(), dy = r.input(0), y = r.input(1);
  return {r.wanted[0] ? rsqrt_grad(g, y) : Value(), r.wanted[1] ? g * dy * square(y) * -1.5F : Value()};
}

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

// With s = sigmoid(x), t = tanh(softplus(x)) and u = 1 - t^2: u s (2 + x (1 - s - 2 t s)).
Value mish_second(Value x) {
  const Value s = sigmoid(x), t = tanh(softplus(x));
  return (1.0F - square(t)) * s * (x * (1.0F - s - t * s * 2.0F) + 2.0F);
}

// 1/3 within (-3, 3).
std::vector<Value> hard_swish_grad_gradient(const GradientRequest& r) {
  const Value g = r.dy(), dy = r.input(0), x = r.input(1);
  const Value is_within = less(abs(x), scalar_like(x, 3));
  return {r.wanted[0] ? hard_swish_grad(g, x) : Value(),
          r.wanted[1] ? select(is_within, g * dy / 3.0F, scalar_like(x, 0)) : Value()};
}

std::vector<Value> leaky_relu_grad_gradient(const GradientRequest& r) {
  return {leaky_relu_grad(r.dy(), r.input(1), r.node.options<LeakyReluOptions>()), Value()};
}

// dx = dy (y + alpha) below 0.
std::vector<Value> elu_grad_gradient(const GradientRequest& r) {
  const Value g = r.dy(), dy = r.input(0), y = r.input(1), zero = scalar_like(y, 0);
  return {r.wanted[0] ? elu_grad(g, y, r.node.options<EluOptions>()) : Value(),
          r.wanted[1] ? select(greater(y, zero), zero, g * dy) : Value()};
}

// The derivative of the error function: 2 / sqrt(pi) e^(-x^2).
std::vector<Value> erf_gradient(const GradientRequest& r) {
  const auto scale = static_cast<float>(2 / std::sqrt(M_PI));
  return {r.dy() * (exp(neg(square(r.input(0)))) * scale)};
}

void add_mathematics_gradients(GradientRegistry& registry) {
  // Not from the output: far below 0 the sum with 1 has no digits of e^x.
  registry.add("expm1", [](const GradientRequest& r) { return std::vector{r.dy() * exp(r.input(0))}; });
  registry.add("log1p", [](const GradientRequest& r) { return std::vector{r.dy() / (r.input(0) + 1.0F)}; });
  registry.add("abs", [](const GradientRequest& r) { return std::vector{r.dy() * sign(r.input(0))}; });
  registry.add_zero("sign");
  registry.add("sin", [](const GradientRequest& r) { return std::vector{r.dy() * cos(r.input(0))}; });
  registry.add("cos", [](const GradientRequest& r) { return std::vector{neg(r.dy() * sin(r.input(0)))}; });
  registry.add("erf", erf_gradient);
  registry.add("softplus", [](const GradientRequest& r) { return std::vector{r.dy() * sigmoid(r.input(0))}; });
  registry.add_zero("is_finite");
  registry.add_zero("logical_not");
}

void add_rectifier_gradients(GradientRegistry& registry) {
  registry.add("mish", [](const GradientRequest& r) { return std::vector{mish_grad(r.dy(), r.input(0))}; });
  registry.add("mish_grad", product_gradient<mish_grad, mish_second>);
  registry.add("hard_swish", [](const GradientRequest& r) { return std::vector{hard_swish_grad(r.dy(), r.input(0))}; });
  registry.add("hard_swish_grad", hard_swish_grad_gradient);
  registry.add("leaky_relu", [](const GradientRequest& r) {
    return std::vector{leaky_relu_grad(r.dy(), r.node.output(), r.node.options<LeakyReluOptions>())};
  });
  registry.add("leaky_relu_grad", leaky_relu_grad_gradient, {.zero_inputs = {1}});
  registry.add("elu", [](const GradientRequest& r) {
    return std::vector{elu_grad(r.dy(), r.node.output(), r.node.options<EluOptions>())};
  });
  registry.add("elu_grad", elu_grad_gradient);
}

}  // namespace

// From the output where that is possible: the input may then die, or be overwritten by the output.
void add_unary_gradients(GradientRegistry& registry) {
  add_mathematics_gradients(registry);
  add_rectifier_gradients(registry);
  registry.add("neg", [](const GradientRequest& r) { return std::vector{neg(r.dy())}; });
  registry.add("square", [](const GradientRequest& r) { return std::vector{square_grad(r.dy(), r.input(0))}; });
  registry.add("sqrt", [](const GradientRequest& r) { return std::vector{sqrt_grad(r.dy(), r.node.output())}; });
  registry.add("rsqrt", [](const GradientRequest& r) { return std::vector{rsqrt_grad(r.dy(), r.node.output())}; });
  registry.add("exp", [](const GradientRequest& r) { return std::vector{mul(r.dy(), r.node.output())}; });
  registry.add("square_grad", square_grad_gradient);
  registry.add("sqrt_grad", sqrt_grad_gradient);
  registry.add("rsqrt_grad", rsqrt_grad_gradient);
  registry.add("log", [](const GradientRequest& r) { return std::vector{div(r.dy(), r.input(0))}; });
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
  // From the input: an output at a bound does not tell whether the input was beyond it.
  registry.add("clip", [](const GradientRequest& r) {
    return std::vector{clip_grad(r.dy(), r.input(0), r.node.options<ClipOptions>())};
  });
  registry.add("clip_grad",
               [](const GradientRequest& r) {
                 return std::vector{clip_grad(r.dy(), r.input(1), r.node.options<ClipOptions>()), Value()};
               },
               {.zero_inputs = {1}});
  // What a cast to integers or booleans gives carries no gradient, so that none comes back to it.
  registry.add("cast", [](const GradientRequest& r) { return std::vector{cast(r.dy(), r.input(0).dtype())}; });
}

}  // namespace sectionflow
