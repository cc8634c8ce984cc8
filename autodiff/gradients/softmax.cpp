#include "graph/ops/softmax.h"

#include "autodiff/gradient_registry.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/reduce.h"

namespace sectionflow {
namespace {

Value row_sum(Value x) {
  return reduce_sum(x, {.axes = {-1}, .keep_dims = true});
}

// dx = y (dy - sum dy y). Of dy: the same of g. Of y: g (dy - sum dy y) - dy sum g y.
std::vector<Value> softmax_grad_gradient(const GradientRequest& r) {
  const Value g = r.dy(), dy = r.input(0), y = r.input(1);
  return {r.wanted[0] ? softmax_grad(g, y) : Value(),
          r.wanted[1] ? g * (dy - row_sum(dy * y)) - dy * row_sum(g * y) : Value()};
}

// dx = dy - e^y sum dy. Of dy: g - sum g e^y. Of y: -g e^y sum dy.
std::vector<Value> log_softmax_grad_gradient(const GradientRequest& r) {
  const Value g = r.dy(), dy = r.input(0);
  const Value weighted = g * exp(r.input(1));
  return {r.wanted[0] ? g - row_sum(weighted) : Value(), r.wanted[1] ? neg(weighted * row_sum(dy)) : Value()};
}

}  // namespace

// From the output, so that both may be computed in place.
void add_softmax_gradients(GradientRegistry& registry) {
  registry.add("softmax", [](const GradientRequest& r) { return std::vector{softmax_grad(r.dy(), r.node.output())}; });
  registry.add("log_softmax",
               [](const GradientRequest& r) { return std::vector{log_softmax_grad(r.dy(), r.node.output())}; });
  registry.add("softmax_grad", softmax_grad_gradient);
  registry.add("log_softmax_grad", log_softmax_grad_gradient);
}

}  // namespace sectionflow
