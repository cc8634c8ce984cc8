#include "graph/ops/layout.h"

#include "autodiff/gradient_registry.h"
#include "graph/nodes/arithmetic.h"
#include "graph/nodes/layout.h"
#include "graph/ops/arithmetic.h"

namespace sectionflow {
namespace {

/// Of x, input 0, by `kBack(dy, x)`, which reads nothing of x but its shape; none of an input whose shape x was given.
template <Value (*kBack)(Value dy, Value x)>
std::vector<Value> gradient_back(const GradientRequest& r) {
  std::vector<Value> gradients(r.wanted.size());
  gradients[0] = kBack(r.dy(), r.input(0));
  return gradients;
}

std::vector<Value> transpose_gradient(const GradientRequest& r) {
  const std::vector<int> permutation =
      normalized_permutation(r.node.options<TransposeOptions>().permutation, r.input(0).shape().rank(), r.node.label());
  std::vector<int> inverse(permutation.size());
  for (std::size_t i = 0; i < permutation.size(); ++i) inverse[permutation[i]] = static_cast<int>(i);
  return {transpose(r.dy(), std::move(inverse), {})};
}

}  // namespace

void add_layout_gradients(GradientRegistry& registry) {
  for (const char* op : {"reshape", "flatten", "reshape_like", "same_size"}) registry.add(op, gradient_back<reshape_like>);
  registry.add("transpose", transpose_gradient);
  for (const char* op : {"broadcast_to", "broadcast_like"}) registry.add(op, gradient_back<reduce_to_like>);
}

}  // namespace sectionflow
