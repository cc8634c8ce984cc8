#include "graph/ops/concat.h"

#include "autodiff/gradient_registry.h"

namespace sectionflow {
namespace {

std::vector<Value> concat_gradient(const GradientRequest& r) {
  const std::vector<Value> wanted_gradients =
      concat_grad(r.dy(), r.node.inputs(), r.node.options<ConcatOptions>(), r.wanted);
  std::vector<Value> gradients(r.wanted.size());
  std::size_t next = 0;
  for (std::size_t i = 0; i < r.wanted.size(); ++i) {
    if (r.wanted[i]) gradients[i] = wanted_gradients[next++];
  }
  return gradients;
}

}  // namespace

void add_concat_gradients(GradientRegistry& registry) {
  registry.add("concat", concat_gradient);
  registry.add("stack", concat_gradient);
  registry.add("split", [](const GradientRequest& r) {
    return std::vector{split_grad(r.input(0), r.output_gradients, r.node.options<SplitOptions>())};
  });
}

}  // namespace sectionflow
