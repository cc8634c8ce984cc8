#include "graph/ops/layer_norm.h"

#include "autodiff/gradient_registry.h"

namespace sectionflow {
namespace {

std::vector<Value> layer_norm_gradient(const GradientRequest& r) {
  SF_CHECK(!r.output_gradients[1].valid() && !r.output_gradients[2].valid(), ArgumentError, r.node.label(),
           ": the loss depends on the statistics themselves, which have no gradient; compute them with reduce_mean");
  const auto g = layer_norm_grad(r.dy(), r.input(0), r.input(1), r.node.output(1), r.node.output(2));
  return {g.dx, g.dscale, g.dshift};
}

}  // namespace

void add_layer_norm_gradients(GradientRegistry& registry) {
  registry.add("layer_norm", layer_norm_gradient);
}

}  // namespace sectionflow
