#include "graph/ops/unary.h"

#include "autodiff/gradient_registry.h"
#include "graph/ops/arithmetic.h"

namespace sectionflow {

// From the output where that is possible: the input may then die, or be overwritten by the output.
void add_unary_gradients(GradientRegistry& registry) {
  registry.add("neg", [](const GradientRequest& r) { return std::vector{neg(r.dy())}; });
  registry.add("square", [](const GradientRequest& r) { return std::vector{square_grad(r.dy(), r.input(0))}; });
  registry.add("sqrt", [](const GradientRequest& r) { return std::vector{sqrt_grad(r.dy(), r.node.output())}; });
  registry.add("rsqrt", [](const GradientRequest& r) { return std::vector{rsqrt_grad(r.dy(), r.node.output())}; });
  registry.add("exp", [](const GradientRequest& r) { return std::vector{mul(r.dy(), r.node.output())}; });
  registry.add("log", [](const GradientRequest& r) { return std::vector{div(r.dy(), r.input(0))}; });
}

}  // namespace sectionflow
