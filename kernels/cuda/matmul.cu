#include "graph/ops/matmul.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/product.h"
#include "kernels/function_kernel.h"
#include "kernels/matmul_problem.h"

namespace sectionflow {
namespace {

using gpu::Steps;

std::unique_ptr<Kernel> make_kernel(const MatmulProblem& p) {
  const gpu::Product product({.batches = p.batch, .rows = p.rows, .columns = p.columns, .inner = p.inner});
  return function_kernel(
      [p, product](const KernelArguments& arguments) {
        const gpu::MatrixOperand a(static_cast<const float*>(arguments.inputs[0]), p.rows * p.inner,
                                   Steps(p.transpose_a ? 1 : p.inner), Steps(p.transpose_a ? p.rows : 1));
        const gpu::MatrixOperand b(static_cast<const float*>(arguments.inputs[1]), p.inner * p.columns,
                                   Steps(p.transpose_b ? p.inner : 1), Steps(p.transpose_b ? 1 : p.columns));
        const gpu::ProductResult y{static_cast<float*>(arguments.outputs[0]), p.rows * p.columns, Steps(p.columns)};
        product.launch(arguments.queue, a, b, y, arguments.workspace);
      },
      {.workspace_bytes = product.workspace_bytes()});
}

std::unique_ptr<Kernel> make_matmul(const KernelRequest& request) {
  return make_kernel(matmul_problem(request));
}

std::unique_ptr<Kernel> make_over_rows(const KernelRequest& request) {
  return make_kernel(matmul_over_rows_problem(request));
}

}  // namespace

void add_matmul_cuda_kernels(KernelRegistry& registry) {
  registry.add("matmul", make_matmul);
  registry.add("matmul_over_rows", make_over_rows);
}

}  // namespace sectionflow
