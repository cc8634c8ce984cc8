#include "graph/ops/reduce.h"

#include "autodiff/compose.h"
#include "autodiff/gradient_registry.h"

namespace sectionflow {
namespace {

std::vector<Value> reduce_gradient(const GradientRequest& r) {
  const auto& options = r.node.options<ReduceNodeOptions>();
  return {options.reduction == Reduction::max ? reduce_max_grad(r.dy(), r.input(0), r.node.output(), options)
                                              : reduce_grad(r.dy(), r.input(0), options)};
}

// dy repeated, or divided among what it is repeated to: the sum, or the mean, of what comes back.
std::vector<Value> reduce_grad_gradient(const GradientRequest& r) {
  const auto& options = r.node.options<ReduceNodeOptions>();
  return {
      options.reduction == Reduction::mean ? reduce_mean(r.dy(), options.reduce) : reduce_sum(r.dy(), options.reduce),
      Value()};
}

// dy times the share of each element that is the largest; shares change in steps.
std::vector<Value> reduce_max_grad_gradient(const GradientRequest& r) {
  const auto& options = r.node.options<ReduceNodeOptions>();
  const Value shares = reduce_max_grad(full_like(r.input(0), 1), r.input(1), r.input(2), options);
  return {reduce_sum(r.dy() * shares, options.reduce), Value(), Value()};
}

}  // namespace

void add_reduce_gradients(GradientRegistry& registry) {
  registry.add("reduce", reduce_gradient);
  registry.add("reduce_grad", reduce_grad_gradient);
  registry.add("reduce_max_grad", reduce_max_grad_gradient, {.zero_inputs = {1, 2}});
}

}  // namespace sectionflow
