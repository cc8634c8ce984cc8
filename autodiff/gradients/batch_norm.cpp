#include "graph/ops/batch_norm.h"

#include "autodiff/gradient_registry.h"

namespace sectionflow {
namespace {

// Mean and variance are statistics for the moving averages; no loss may depend on them otherwise.
std::vector<Value> batch_norm_gradient(const GradientRequest& r) {
  SF_CHECK(
      !r.output_gradients[1].valid() && !r.output_gradients[2].valid(), ArgumentError, r.node.label(),
      ": the loss depends on the batch statistics themselves, which have no gradient; compute them with reduce_mean");
  SF_CHECK(!r.wanted[3] && !r.wanted[4], ArgumentError, r.node.label(),
           ": its running statistics depend on a variable to train; gradients with respect to them are not supported");
  const auto g = batch_norm_grad(r.dy(), r.input(0), r.input(1), r.input(2), r.node.output(1), r.node.output(2),
                                 r.input(5), r.node.options<BatchNormOptions>());
  return {g.dx, g.dscale, g.dshift, Value(), Value(), Value()};
}

}  // namespace

void add_batch_norm_gradients(GradientRegistry& registry) {
  registry.add("batch_norm", batch_norm_gradient);
}

}  // namespace sectionflow
