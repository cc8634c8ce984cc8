#include "graph/ops/bias_add.h"

#include "autodiff/gradient_registry.h"
#include "graph/nodes/bias_add.h"
#include "graph/nodes/reduce.h"
#include "graph/ops/reduce.h"

namespace sectionflow {
namespace {

// The sum over all axes but that of the channels: each element of dy counts once.
std::vector<Value> bias_add_grad_gradient(const GradientRequest& r) {
  const Value dy = r.input(0);
  const int channels = channel_axis(r.node.options<BiasAddOptions>().format);
  ReduceOptions options;
  for (int axis = 0; axis < dy.shape().rank(); ++axis) {
    if (axis != (channels + dy.shape().rank()) % dy.shape().rank()) options.axes.push_back(axis);
  }
  // A vector is its own sum; no axes would mean all.
  if (options.axes.empty()) return {r.dy()};
  return {reduce_grad(r.dy(), dy, {Reduction::sum, options})};
}

}  // namespace

void add_bias_add_gradients(GradientRegistry& registry) {
  registry.add("bias_add", [](const GradientRequest& r) {
    return std::vector{r.dy(), r.wanted[1] ? bias_add_grad(r.dy(), r.node.options<BiasAddOptions>()) : Value()};
  });
  registry.add("bias_add_grad", bias_add_grad_gradient);
}

}  // namespace sectionflow
