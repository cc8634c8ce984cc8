#include "graph/ops/global_norm.h"

#include "autodiff/gradient_registry.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/compare.h"
#include "graph/ops/select.h"

namespace sectionflow {
namespace {

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

void add_global_norm_gradients(GradientRegistry& registry) {
  registry.add("global_norm", global_norm_gradient);
  registry.add("global_norm_grad", global_norm_grad_gradient);
  registry.add("clip_scale", clip_scale_gradient);
}

}  // namespace sectionflow
