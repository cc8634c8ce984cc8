#include "graph/ops/reduce.h"

#include "autodiff/compose.h"
#include "autodiff/gradient_registry.h"
#include "graph/nodes/reduce.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"

namespace sectionflow {
namespace {

std::vector<Value> reduce_gradient(const GradientRequest& r) {
  const auto& options = r.node.options<ReduceNodeOptions>();
  return {is_choice(options.reduction) ? reduce_max_grad(r.dy(), r.input(0), r.node.output(), options)
                                       : reduce_grad(r.dy(), r.input(0), options)};
}

// dy repeated, or divided among what it is repeated to: the sum, or the mean, of what comes back.
std::vector<Value> reduce_grad_gradient(const GradientRequest& r) {
  const auto& options = r.node.options<ReduceNodeOptions>();
  return {
      options.reduction == Reduction::mean ? reduce_mean(r.dy(), options.reduce) : reduce_sum(r.dy(), options.reduce),
      Value()};
}

// dy times the share of each element that is the largest, or smallest; shares change in steps.
std::vector<Value> reduce_max_grad_gradient(const GradientRequest& r) {
  const auto& options = r.node.options<ReduceNodeOptions>();
  const Value shares = reduce_max_grad(full_like(r.input(0), 1), r.input(1), r.input(2), options);
  return {reduce_sum(r.dy() * shares, options.reduce), Value(), Value()};
}

std::vector<Value> global_norm_gradient(const GradientRequest& r) {
  const Value factor = global_norm_grad(r.dy(), r.node.output());
  std::vector<Value> result;
  for (std::size_t i = 0; i < r.wanted.size(); ++i) {
    result.push_back(r.wanted[i] ? mul(r.input(static_cast<int>(i)), factor) : Value());
  }
  return result;
}

// dy / norm. Of norm: -g dy / norm^2.
std::vector<Value> global_norm_grad_gradient(const GradientRequest& r) {
  const Value g = r.dy(), dy = r.input(0), norm = r.input(1);
  return {r.wanted[0] ? global_norm_grad(g, norm) : Value(),
          r.wanted[1] ? neg(global_norm_grad(global_norm_grad(g * dy, norm), norm)) : Value()};
}

// y = m / norm where norm > m: -dy y^2 / m; 1 otherwise.
std::vector<Value> clip_scale_gradient(const GradientRequest& r) {
  const float max_norm = r.node.options<ClipScaleOptions>().max_norm;
  Graph& graph = r.node.graph();
  const Value y = r.node.output();
  const Value clipped = greater(r.input(0), constant(graph, max_norm));
  return {select(clipped, neg(r.dy() * y * y / max_norm), constant(graph, 0.0F))};
}

}  // namespace

void add_reduce_gradients(GradientRegistry& registry) {
  registry.add("reduce", reduce_gradient);
  registry.add("reduce_grad", reduce_grad_gradient);
  registry.add("reduce_max_grad", reduce_max_grad_gradient, {.zero_inputs = {1, 2}});
  registry.add("global_norm", global_norm_gradient);
  registry.add("global_norm_grad", global_norm_grad_gradient);
  registry.add("clip_scale", clip_scale_gradient);
}

}  // namespace sectionflow
