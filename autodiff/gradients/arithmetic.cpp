#include "graph/ops/arithmetic.h"

#include "autodiff/compose.h"
#include "autodiff/gradient_registry.h"
#include "graph/nodes/arithmetic.h"
#include "graph/nodes/layout.h"
#include "graph/ops/basic.h"
#include "graph/ops/unary.h"

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

// dx = dy, dy / 2 or 0, decided by a and b in steps.
template <Value (*kSame)(Value, Value, Value)>
std::vector<Value> extremum_grad_gradient(const GradientRequest& r) {
  return {kSame(r.dy(), r.input(1), r.input(2)), Value(), Value()};
}

// dx = dy b a^(b - 1). Of a: g dy b (b - 1) a^(b - 2), which is 0 for b = 0 also where a = 0.
// Of b: g dy (a^(b - 1) + b a^(b - 1) ln a).
std::vector<Value> pow_grad_base_gradient(const GradientRequest& r) {
  const Value g = r.dy(), dy = r.input(0), a = r.input(1), b = r.input(2);
  Value of_a, of_b;
  if (r.wanted[1]) {
    const Value zero = scalar_like(b, 0);
    of_a = like_input(select(equal(b, zero), zero, pow_grad_base(g * dy * b, a, b - 1.0F)), a);
  }
  if (r.wanted[2]) {
    const Value lower = pow(a, b - 1.0F);
    of_b = like_input(g * dy * lower + pow_grad_exponent(g * dy * b, lower, a), b);
  }
  return {r.wanted[0] ? pow_grad_base(g, a, b) : Value(), of_a, of_b};
}

// dx = dy y ln a, and 0 where a = 0 and y is finite: there it does not change with a or y.
std::vector<Value> pow_grad_exponent_gradient(const GradientRequest& r) {
  const Value g = r.dy(), dy = r.input(0), y = r.input(1), a = r.input(2);
  const Value zero = scalar_like(a, 0);
  return {r.wanted[0] ? pow_grad_exponent(g, y, a) : Value(),
          r.wanted[1] ? like_input(pow_grad_exponent(g * dy, scalar_like(y, 1), a), y) : Value(),
          r.wanted[2] ? like_input(select(equal(a, zero), zero, g * dy * y / a), a) : Value()};
}

std::vector<Value> reduce_to_like_gradient(const GradientRequest& r) {
  return {broadcast_like(r.dy(), r.input(0)), Value()};
}

std::vector<Value> add_n_gradient(const GradientRequest& r) {
  return std::vector<Value>(r.node.inputs().size(), r.dy());
}

// Of f32 and bf16 inputs each gets its own dtype; a cast to that of dy is none.
std::vector<Value> accumulate_gradient(const GradientRequest& r) {
  return {r.wanted[0] ? cast(r.dy(), r.input(0).dtype()) : Value(),
          r.wanted[1] ? cast(r.dy(), r.input(1).dtype()) : Value()};
}

// Reads a byte an element beside dy, and may lie over dy.
std::vector<Value> select_gradient(const GradientRequest& r) {
  const Value condition = r.input(0);
  const Value zero = constant(r.node.graph(), HostTensor(r.dy().dtype(), {}));
  return {Value(), r.wanted[1] ? like_input(select(condition, r.dy(), zero), r.input(1)) : Value(),
          r.wanted[2] ? like_input(select(condition, zero, r.dy()), r.input(2)) : Value()};
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
  registry.add("maximum_grad", extremum_grad_gradient<maximum_grad>, {.zero_inputs = {1, 2}});
  registry.add("minimum_grad", extremum_grad_gradient<minimum_grad>, {.zero_inputs = {1, 2}});
  registry.add("pow_grad_base", pow_grad_base_gradient);
  registry.add("pow_grad_exponent", pow_grad_exponent_gradient);
  registry.add("reduce_to_like", reduce_to_like_gradient);
  // Truth values are constant almost everywhere.
  for (const char* op : {"equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "logical_and",
                         "logical_or", "logical_xor"}) {
    registry.add_zero(op);
  }
  registry.add("select", select_gradient);
}

}  // namespace sectionflow
