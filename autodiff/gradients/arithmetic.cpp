#include "graph/ops/arithmetic.h"

#include "autodiff/gradient_registry.h"
#include "autodiff/like_input.h"
#include "graph/ops/cast.h"

namespace sectionflow {
namespace {

std::vector<Value> add_gradient(const GradientRequest& r) {
  return {r.wanted[0] ? like_input(r.dy(), r.input(0)) : Value(),
          r.wanted[1] ? like_input(r.dy(), r.input(1)) : Value()};
}

std::vector<Value> sub_gradient(const GradientRequest& r) {
  return {r.wanted[0] ? like_input(r.dy(), r.input(0)) : Value(),
          r.wanted[1] ? like_input(neg(r.dy()), r.input(1)) : Value()};
}

std::vector<Value> mul_gradient(const GradientRequest& r) {
  return {r.wanted[0] ? like_input(r.dy() * r.input(1), r.input(0)) : Value(),
          r.wanted[1] ? like_input(r.dy() * r.input(0), r.input(1)) : Value()};
}

// y = a / b: da = dy / b, db = -dy y / b.
std::vector<Value> div_gradient(const GradientRequest& r) {
  const Value b = r.input(1);
  return {r.wanted[0] ? like_input(r.dy() / b, r.input(0)) : Value(),
          r.wanted[1] ? like_input(neg(r.dy() * r.node.output() / b), b) : Value()};
}

template <Value (*kGradient)(Value, Value, Value)>
std::vector<Value> extremum_gradient(const GradientRequest& r) {
  const Value a = r.input(0), b = r.input(1);
  return {r.wanted[0] ? like_input(kGradient(r.dy(), a, b), a) : Value(),
          r.wanted[1] ? like_input(kGradient(r.dy(), b, a), b) : Value()};
}

std::vector<Value> pow_gradient(const GradientRequest& r) {
  const Value a = r.input(0), b = r.input(1);
  return {r.wanted[0] ? like_input(pow_grad_base(r.dy(), a, b), a) : Value(),
          r.wanted[1] ? like_input(pow_grad_exponent(r.dy(), r.node.output(), a), b) : Value()};
}

std::vector<Value> add_n_gradient(const GradientRequest& r) {
  return std::vector<Value>(r.node.inputs().size(), r.dy());
}

// Of f32 and bf16 inputs each gets its own dtype; a cast to that of dy is none.
std::vector<Value> accumulate_gradient(const GradientRequest& r) {
  return {r.wanted[0] ? cast(r.dy(), r.input(0).dtype()) : Value(),
          r.wanted[1] ? cast(r.dy(), r.input(1).dtype()) : Value()};
}

}  // namespace

void add_arithmetic_gradients(GradientRegistry& registry) {
  registry.add("add", add_gradient);
  registry.add("sub", sub_gradient);
  registry.add("mul", mul_gradient);
  registry.add("div", div_gradient);
  registry.add("maximum", extremum_gradient<maximum_grad>);
  registry.add("minimum", extremum_gradient<minimum_grad>);
  registry.add("pow", pow_gradient);
  registry.add("add_n", add_n_gradient);
  registry.add("accumulate", accumulate_gradient);
}

}  // namespace sectionflow
