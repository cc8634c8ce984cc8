#include "graph/ops/softmax_cross_entropy.h"

#include "autodiff/gradient_registry.h"

namespace sectionflow {
namespace {

std::vector<Value> softmax_cross_entropy_gradient(const GradientRequest& r) {
  SF_CHECK(!r.output_gradients[1].valid(), ArgumentError, r.node.label(),
           ": the loss depends on the probabilities themselves, which have no gradient here");
  SF_CHECK(!r.wanted[1], ArgumentError, r.node.label(), ": labels '", r.input(1).name(),
           "' depend on a variable to train; gradients with respect to labels are not supported");
  return {softmax_cross_entropy_grad(r.node.output(1), r.input(1), r.dy()), Value()};
}

}  // namespace

void add_softmax_cross_entropy_gradients(GradientRegistry& registry) {
  registry.add("softmax_cross_entropy", softmax_cross_entropy_gradient);
}

}  // namespace sectionflow
