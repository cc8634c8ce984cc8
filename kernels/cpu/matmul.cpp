#include "graph/ops/matmul.h"

#include <cstring>

#include "device/instruction_set.h"
#include "graph/nodes/matmul.h"
#include "kernels/cpu/bf16_matmul.h"
#include "kernels/cpu/blocked_matmul.h"
#include "kernels/cpu/copies.h"
#include "kernels/cpu/onednn_matmul.h"
#include "kernels/cpu/sliced_kernel.h"
#include "kernels/function_kernel.h"
#include "kernels/kernel_registry.h"

namespace sectionflow {
namespace {

/// The kernel of bf16 for a machine that multiplies it; nullptr on others, and where oneDNN has none.
std::unique_ptr<Kernel> native_bf16_product(OneDnn& onednn, const MatmulProblem& p, const ProductBlocks& blocks) {
  if (!multiplies_bf16()) return nullptr;
  if (blocks && !blocks.sums) return blocked_rows_kernel(onednn, p, blocks.rows, Dtype::bf16);
  return whole_product_kernel(onednn, p, Dtype::bf16);
}

std::unique_ptr<Kernel> make_kernel(const KernelRequest& request, const MatmulProblem& p, const ProductBlocks& blocks) {
  const std::size_t num_bytes = request.outputs[0].bytes();
  if (p.inner == 0 || num_bytes == 0) {
    return function_kernel([num_bytes](const KernelArguments& arguments) {
      if (num_bytes > 0) std::memset(arguments.outputs[0], 0, num_bytes);
    });
  }
  OneDnn& onednn = onednn_of(request);
  if (request.outputs[0].dtype == Dtype::bf16) {
    if (auto kernel = native_bf16_product(onednn, p, blocks)) return kernel;
    if (p.batch == 1) return bf16_matmul_kernel(onednn, p, blocks.sums ? 0 : blocks.rows);
    return sliced_kernel(request, SlicedUse::pairs, p.batch, [&](std::int64_t num_matrices) {
      MatmulProblem of_slice = p;
      of_slice.batch = num_matrices;
      return whole_product_kernel(onednn, of_slice);
    });
  }
  if (blocks.sums) return blocked_sum_kernel(onednn, p, blocks.rows, request.part && request.part->adds);
  if (blocks) return blocked_rows_kernel(onednn, p, blocks.rows);
  return whole_product_kernel(onednn, p);
}

std::unique_ptr<Kernel> make_matmul(const KernelRequest& request) {
  return make_kernel(
      request, matmul_problem(request),
      matmul_blocks(whole_shape(request, 0), request.inputs[1].shape, request.node.options<MatmulOptions>()));
}

std::unique_ptr<Kernel> make_over_rows(const KernelRequest& request) {
  return make_kernel(request, matmul_over_rows_problem(request),
                     over_rows_blocks(whole_shape(request, 0), request.inputs[1].shape));
}

std::unique_ptr<Kernel> make_added(const KernelRequest& request) {
  const MatmulProblem p = matmul_problem(request);
  const std::size_t num_bytes = request.outputs[0].bytes();
  return p.inner == 0 || num_bytes == 0 ? copy_kernel(num_bytes) : added_product_kernel(onednn_of(request), p);
}

}  // namespace

void add_matmul_cpu_kernels(KernelRegistry& registry) {
  registry.add("matmul", onednn_factory<make_matmul>, Bf16::native);
  registry.add("add_matmul", onednn_factory<make_added>);
  registry.add("matmul_over_rows", onednn_factory<make_over_rows>, Bf16::native);
}

}  // namespace sectionflow
