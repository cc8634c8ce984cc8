#include "graph/ops/activation.h"

#include "autodiff/gradient_registry.h"

namespace sectionflow {

// From the output where it tells enough, so that the activation may be computed in place.
void add_activation_gradients(GradientRegistry& registry) {
  registry.add("relu", [](const GradientRequest& r) { return std::vector{relu_grad(r.dy(), r.node.output())}; });
  registry.add("tanh", [](const GradientRequest& r) { return std::vector{tanh_grad(r.dy(), r.node.output())}; });
  registry.add("sigmoid", [](const GradientRequest& r) { return std::vector{sigmoid_grad(r.dy(), r.node.output())}; });
  registry.add("silu", [](const GradientRequest& r) { return std::vector{silu_grad(r.dy(), r.input(0))}; });
  registry.add("gelu", [](const GradientRequest& r) {
    return std::vector{gelu_grad(r.dy(), r.input(0), r.node.options<GeluOptions>())};
  });
}

}  // namespace sectionflow
