#include "graph/ops/matmul.h"

#include "autodiff/gradient_registry.h"

namespace sectionflow {
namespace {

// With A, B the factors as multiplied (transposes applied): dA = dy B^T, dB = A^T dy; a factor that was given
// transposed wants the transpose of that. A matrix b that a batch shares gets the sum over the batch.
std::vector<Value> matmul_gradient(const GradientRequest& r) {
  const auto& options = r.node.options<MatmulOptions>();
  const Value a = r.input(0), b = r.input(1), dy = r.dy();
  Value da, db;
  if (r.wanted[0]) {
    da = options.transpose_a ? matmul(b, dy, {.transpose_a = options.transpose_b, .transpose_b = true})
                             : matmul(dy, b, {.transpose_a = false, .transpose_b = !options.transpose_b});
  }
  const bool shared = b.shape().rank() == 2 && a.shape().rank() > 2;
  if (r.wanted[1] && shared) {
    db = options.transpose_b ? matmul_over_rows(dy, a) : matmul_over_rows(a, dy);
  } else if (r.wanted[1]) {
    db = options.transpose_b ? matmul(dy, a, {.transpose_a = true, .transpose_b = options.transpose_a})
                             : matmul(a, dy, {.transpose_a = !options.transpose_a, .transpose_b = false});
  }
  return {da, db};
}

}  // namespace

void add_matmul_gradients(GradientRegistry& registry) {
  registry.add("matmul", matmul_gradient);
}

}  // namespace sectionflow
