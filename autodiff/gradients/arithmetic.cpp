#include "graph/ops/arithmetic.h"

#include "autodiff/gradient_registry.h"

namespace sectionflow {
namespace {

/// Undoes broadcasting where there was any.
Value like_input(Value gradient, Value input) {
  const bool same = gradient.shape() == input.shape() && input.shape().is_static();
  return same || gradient.shape().rank() == 0 ? gradient : reduce_to_like(gradient, input);
}

Value negated(Value x) {
  return x * -1.0F;
}

std::vector<Value> add_gradient(const GradientRequest& r) {
  return {r.wanted[0] ? like_input(r.dy(), r.input(0)) : Value(),
          r.wanted[1] ? like_input(r.dy(), r.input(1)) : Value()};
}

std::vector<Value> sub_gradient(const GradientRequest& r) {
  return {r.wanted[0] ? like_input(r.dy(), r.input(0)) : Value(),
          r.wanted[1] ? like_input(negated(r.dy()), r.input(1)) : Value()};
}

std::vector<Value> mul_gradient(const GradientRequest& r) {
  return {r.wanted[0] ? like_input(r.dy() * r.input(1), r.input(0)) : Value(),
          r.wanted[1] ? like_input(r.dy() * r.input(0), r.input(1)) : Value()};
}

// y = a / b: da = dy / b, db = -dy y / b.
std::vector<Value> div_gradient(const GradientRequest& r) {
  const Value b = r.input(1);
  return {r.wanted[0] ? like_input(r.dy() / b, r.input(0)) : Value(),
          r.wanted[1] ? like_input(negated(r.dy() * r.node.output() / b), b) : Value()};
}

std::vector<Value> add_n_gradient(const GradientRequest& r) {
  return std::vector<Value>(r.node.inputs().size(), r.dy());
}

}  // namespace

void add_arithmetic_gradients(GradientRegistry& registry) {
  registry.add("add", add_gradient);
  registry.add("sub", sub_gradient);
  registry.add("mul", mul_gradient);
  registry.add("div", div_gradient);
  registry.add("add_n", add_n_gradient);
}

}  // namespace sectionflow
