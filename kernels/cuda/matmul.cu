#include "graph/ops/matmul.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/product.h"
#include "kernels/formulas/arithmetic.h"
#include "kernels/function_kernel.h"
#include "kernels/matmul_problem.h"

namespace sectionflow {
namespace {

using gpu::Steps;

/// A product of matrices as they lie.
class LyingProduct {
 public:
  explicit LyingProduct(const MatmulProblem& p)
      : p_(p), product_({.batches = p.batch, .rows = p.rows, .columns = p.columns, .inner = p.inner}) {}

  std::size_t workspace_bytes() const { return product_.workspace_bytes(); }
  void launch(void* queue, const void* first, const void* second, void* result, void* workspace) const {
    const gpu::MatrixOperand a(static_cast<const float*>(first), p_.rows * p_.inner,
                               Steps(p_.transpose_a ? 1 : p_.inner), Steps(p_.transpose_a ? p_.rows : 1));
    const gpu::MatrixOperand b(static_cast<const float*>(second), p_.inner * p_.columns,
                               Steps(p_.transpose_b ? p_.inner : 1), Steps(p_.transpose_b ? 1 : p_.columns));
    const gpu::ProductResult y{static_cast<float*>(result), p_.rows * p_.columns, Steps(p_.columns)};
    product_.launch(queue, a, b, y, workspace);
  }

 private:
  MatmulProblem p_;
  gpu::Product product_;
};

std::unique_ptr<Kernel> make_kernel(const MatmulProblem& p) {
  const LyingProduct product(p);
  return function_kernel(
      [product](const KernelArguments& arguments) {
        product.launch(arguments.queue, arguments.inputs[0], arguments.inputs[1], arguments.outputs[0],
                       arguments.workspace);
      },
      {.workspace_bytes = product.workspace_bytes()});
}

/// The product is computed beside x, and added.
std::unique_ptr<Kernel> make_added(const KernelRequest& request) {
  const LyingProduct product(matmul_problem(request));
  const std::int64_t count = request.outputs[0].shape.num_elements();
  WorkspaceLayout workspace;
  const std::size_t y_at = workspace.add(request.outputs[0].bytes()),
                    product_at = workspace.add(product.workspace_bytes());
  return function_kernel(
      [=](const KernelArguments& arguments) {
        void* y = workspace_part(arguments.workspace, y_at);
        product.launch(arguments.queue, arguments.inputs[1], arguments.inputs[2], y,
                       workspace_part(arguments.workspace, product_at));
        gpu::launch_map<float, float, float>(arguments.queue, count, formulas::Add(), arguments.outputs[0],
                                             {arguments.inputs[0], y});
      },
      {.workspace_bytes = workspace.num_bytes(), .in_place = {{0, 0}}});
}

std::unique_ptr<Kernel> make_matmul(const KernelRequest& request) {
  return make_kernel(matmul_problem(request));
}

std::unique_ptr<Kernel> make_over_rows(const KernelRequest& request) {
  return make_kernel(matmul_over_rows_problem(request));
}

}  // namespace

void add_matmul_cuda_kernels(KernelRegistry& registry) {
  registry.add("add_matmul", make_added);
  registry.add("matmul", make_matmul);
  registry.add("matmul_over_rows", make_over_rows);
}

}  // namespace sectionflow
