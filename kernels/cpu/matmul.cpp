#include "graph/ops/matmul.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "graph/nodes/matmul.h"
#include "kernels/cpu/bf16_matmul.h"
#include "kernels/cpu/blocked_matmul.h"
#include "kernels/cpu/onednn_call.h"
#include "kernels/cpu/onednn_matmul.h"
#include "kernels/cpu/sliced_kernel.h"
#include "kernels/function_kernel.h"
#include "kernels/kernel_registry.h"

namespace sectionflow {
namespace {

using dnnl::memory;

/// oneDNN's matmul, with b reordered into workspace first where `reorder` is valid.
class MatmulKernel final : public Kernel {
 public:
  MatmulKernel(OneDnnCall multiply, OneDnnCall reorder, std::size_t reordered_bytes)
      : multiply_(std::move(multiply)), reorder_(std::move(reorder)) {
    reordered_at_ = workspace_.add(reordered_bytes);
    scratchpad_at_ = workspace_.add(std::max(multiply_.scratchpad_bytes(), reorder_.scratchpad_bytes()));
  }

  std::string implementation() const override { return "onednn " + multiply_.implementation(); }
  std::size_t workspace_bytes() const override { return workspace_.num_bytes(); }
  std::size_t library_bytes() const override { return multiply_.library_bytes() + reorder_.library_bytes(); }

  void launch(const KernelArguments& arguments) override {
    void* scratchpad = workspace_part(arguments.workspace, scratchpad_at_);
    const void* b = arguments.inputs[1];
    if (reorder_.valid()) {
      void* reordered = workspace_part(arguments.workspace, reordered_at_);
      reorder_.launch({b, reordered}, scratchpad);
      b = reordered;
    }
    multiply_.launch({arguments.inputs[0], b, arguments.outputs[0]}, scratchpad);
  }

 private:
  OneDnnCall multiply_, reorder_;
  std::size_t reordered_at_ = 0, scratchpad_at_ = 0;
  WorkspaceLayout workspace_;
};

/// With long rows brgemm reads a row-major b in place, which costs up to half of its speed: then, if there are enough
/// rows of y to pay for it, b is reordered as oneDNN likes it. In other cases oneDNN copies b itself, into its
/// scratchpad. A table of a large vocabulary is read in place: a second copy of it would cost more memory than it is
/// worth in time, 15 % where rows are that short.
bool wants_reordered_b(const MatmulProblem& p) {
  constexpr std::int64_t kMostElements = 1 << 24;  // 64 MiB
  return p.batch == 1 && !p.transpose_b && p.columns >= 768 && p.rows >= 128 && p.inner * p.columns <= kMostElements;
}

/// The kernel of f32 that computes all at once.
std::unique_ptr<Kernel> whole_product(OneDnn& onednn, const MatmulProblem& p) {
  const auto [a, b, y] = matmul_layout(p);
  const memory::desc wanted_b =
      wants_reordered_b(p) ? memory::desc({p.inner, p.columns}, memory::data_type::f32, memory::format_tag::any) : b;
  const auto description = describe_matmul(onednn, a, wanted_b, y);
  const memory::desc chosen_b = description.weights_desc();
  OneDnnCall multiply(onednn, description, {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, chosen_b}, {DNNL_ARG_DST, y}});
  if (chosen_b == b) return std::make_unique<MatmulKernel>(std::move(multiply), OneDnnCall(), 0);
  return std::make_unique<MatmulKernel>(std::move(multiply), make_reorder(onednn, b, chosen_b), chosen_b.get_size());
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
    if (p.batch == 1) return bf16_matmul_kernel(onednn, p, blocks.sums ? 0 : blocks.rows);
    return sliced_kernel(request, SlicedUse::pairs, p.batch, [&](std::int64_t num_matrices) {
      MatmulProblem of_slice = p;
      of_slice.batch = num_matrices;
      return whole_product(onednn, of_slice);
    });
  }
  if (blocks.sums) return blocked_sum_kernel(onednn, p, blocks.rows, request.part && request.part->adds);
  if (blocks) return blocked_rows_kernel(onednn, p, blocks.rows);
  return whole_product(onednn, p);
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

}  // namespace

void add_matmul_cpu_kernels(KernelRegistry& registry) {
  registry.add("matmul", onednn_factory<make_matmul>, Bf16::native);
  registry.add("matmul_over_rows", onednn_factory<make_over_rows>, Bf16::native);
}

}  // namespace sectionflow
