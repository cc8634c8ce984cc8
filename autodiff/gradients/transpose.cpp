#include "graph/ops/transpose.h"

#include "autodiff/gradient_registry.h"

namespace sectionflow {

void add_transpose_gradients(GradientRegistry& registry) {
  registry.add("transpose", [](const GradientRequest& r) {
    const std::vector<int> permutation = normalized_permutation(r.node.options<TransposeOptions>().permutation,
                                                                r.input(0).shape().rank(), r.node.label());
    std::vector<int> inverse(permutation.size());
    for (std::size_t i = 0; i < permutation.size(); ++i) inverse[permutation[i]] = static_cast<int>(i);
    return std::vector{transpose(r.dy(), std::move(inverse), {})};
  });
}

}  // namespace sectionflow
