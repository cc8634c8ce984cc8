#include "graph/ops/indexing.h"

#include "autodiff/gradient_registry.h"
#include "graph/nodes/indexing.h"
#include "graph/ops/scatter.h"

namespace sectionflow {

void add_indexing_gradients(GradientRegistry& registry) {
  const auto gather_gradient = [](const GradientRequest& r) {
    return std::vector{gather_grad(r.dy(), r.input(1), r.input(0)), Value()};
  };
  const GradientTraits traits{
      .added_to_sum = [](const GradientRequest& r, int, Value sum) { return scatter_add(sum, r.input(1), r.dy()); }};
  registry.add("gather", gather_gradient, traits);
  registry.add("gather_present", gather_gradient, traits);
  registry.add("gather_grad", [](const GradientRequest& r) {
    return std::vector{gather_present(r.dy(), r.input(1)), Value(), Value()};
  });
  registry.add_zero("one_hot");  // reads numbers of classes
  registry.add_zero("argmax");   // an index is constant almost everywhere
}

}  // namespace sectionflow
