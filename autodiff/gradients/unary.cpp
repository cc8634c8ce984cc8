#include "graph/ops/unary.h"

#include "autodiff/gradient_registry.h"
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

}  // namespace

// From the output where that is possible: the input may then die, or be overwritten by the output.
void add_unary_gradients(GradientRegistry& registry) {
  registry.add("neg", [](const GradientRequest& r) { return std::vector{neg(r.dy())}; });
  registry.add("square", [](const GradientRequest& r) { return std::vector{square_grad(r.dy(), r.input(0))}; });
  registry.add("sqrt", [](const GradientRequest& r) { return std::vector{sqrt_grad(r.dy(), r.node.output())}; });
  registry.add("rsqrt", [](const GradientRequest& r) { return std::vector{rsqrt_grad(r.dy(), r.node.output())}; });
  registry.add("exp", [](const GradientRequest& r) { return std::vector{mul(r.dy(), r.node.output())}; });
  registry.add("square_grad", square_grad_gradient);
  registry.add("sqrt_grad", sqrt_grad_gradient);
  registry.add("rsqrt_grad", rsqrt_grad_gradient);
  registry.add("log", [](const GradientRequest& r) { return std::vector{div(r.dy(), r.input(0))}; });
}

}  // namespace sectionflow
