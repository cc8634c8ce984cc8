#include "graph/ops/softmax_cross_entropy.h"

#include "autodiff/gradient_registry.h"

namespace sectionflow {
namespace {

std::vector<Value> softmax_cross_entropy_gradient(const GradientRequest& r) {
  SF_CHECK(!r.output_gradients[1].valid(), ArgumentError, r.node.label(),
           ": the loss depends on the statistics of its rows themselves, which have no gradient here");
  SF_CHECK(!r.wanted[1], ArgumentError, r.node.label(), ": labels '", r.input(1).name(),
           "' depend on a variable to train; gradients with respect to labels are not supported");
  SoftmaxCrossEntropyOptions options{.label_smoothing =
                                         r.node.options<SoftmaxCrossEntropyNodeOptions>().label_smoothing};
  if (r.wanted.size() == 3) {
    options.class_weights = r.input(2);
    SF_CHECK(!r.wanted[2], ArgumentError, r.node.label(), ": class_weights '", r.input(2).name(),
             "' depend on a variable to train; gradients with respect to them are not supported");
  }
  std::vector<Value> gradients(r.wanted.size());
  gradients[0] = softmax_cross_entropy_grad(r.dy(), r.node.output(1), r.input(0), r.input(1), options);
  return gradients;
}

}  // namespace

void add_softmax_cross_entropy_gradients(GradientRegistry& registry) {
  registry.add("softmax_cross_entropy", softmax_cross_entropy_gradient);
}

}  // namespace sectionflow
