#include "graph/ops/attention.h"

#include "autodiff/gradient_registry.h"

namespace sectionflow {
namespace {

std::vector<Value> attention_gradient(const GradientRequest& r) {
  SF_CHECK(!r.output_gradients[1].valid(), ArgumentError, r.node.label(),
           ": the loss depends on the sums of exponentials themselves, which have no gradient here");
  const auto g =
      attention_grad(r.dy(), r.input(0), r.input(1), r.input(2), r.node.output(1), r.node.options<AttentionOptions>());
  return {g.dq, g.dk, g.dv};
}

}  // namespace

void add_attention_gradients(GradientRegistry& registry) {
  registry.add("attention", attention_gradient);
}

}  // namespace sectionflow
