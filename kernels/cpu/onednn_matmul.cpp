#include "kernels/cpu/onednn_matmul.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "device/instruction_set.h"
#include "kernels/cpu/copies.h"
#include "kernels/cpu/ordered_weights.h"
#include "kernels/function_kernel.h"

namespace sectionflow {
namespace {

using dnnl::memory;

/// Matrices of `rows` x `columns` that are stored row by row, or column by column if they are given transposed.
memory::desc matrix_layout(std::int64_t batch, std::int64_t rows, std::int64_t columns, bool is_transposed,
                           memory::data_type type) {
  using tag = memory::format_tag;
  if (batch == 1) return {{rows, columns}, type, is_transposed ? tag::ba : tag::ab};
  return {{batch, rows, columns}, type, is_transposed ? tag::acb : tag::abc};
}

}  // namespace

MatmulLayout matmul_layout(const MatmulProblem& p, Dtype factors, Dtype y) {
  const memory::data_type type = onednn_type(factors);
  return {matrix_layout(p.batch, p.rows, p.inner, p.transpose_a, type),
          matrix_layout(p.batch, p.inner, p.columns, p.transpose_b, type),
          matrix_layout(p.batch, p.rows, p.columns, false, onednn_type(y))};
}

OneDnnCall make_matmul_call(OneDnn& onednn, const MatmulProblem& problem, Dtype factors) {
  const auto [a, b, y] = matmul_layout(problem, factors);
  const auto description = describe_matmul(onednn, a, b, y);
  return {onednn, description, {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, y}}};
}

bool multiplies_bf16_of(std::int64_t inner) {
  // A number that is no multiple of two, of which instructions take pairs, within the first block of 64.
  const bool is_odd_tail = inner < 64 && inner % 2 == 1;
  return multiplies_bf16() && !is_odd_tail;
}

namespace {

/// oneDNN's matmul, with b in the order that it likes.
class MatmulKernel : public Kernel, public ReadsOrderedWeights {
 public:
  MatmulKernel(OneDnnCall multiply, OrderedWeights b) : multiply_(std::move(multiply)), b_(std::move(b)) { lay_out(); }

  std::string implementation() const override { return "onednn " + multiply_.implementation(); }
  std::size_t workspace_bytes() const override { return workspace_.num_bytes(); }
  std::size_t library_bytes() const override { return multiply_.library_bytes() + b_.library_bytes(); }

  std::size_t weights_input() const override { return 1; }
  const OrderedWeights& weights() const override { return b_; }
  void take_packed() override {
    b_.take_packed();
    lay_out();
  }

  void launch(const KernelArguments& arguments) override {
    multiply(arguments, arguments.inputs[0], arguments.inputs[1]);
  }

 protected:
  void multiply(const KernelArguments& arguments, const void* a, const void* b) {
    void* scratchpad = workspace_part(arguments.workspace, scratchpad_at_);
    const void* ordered = b_.in_order(b, workspace_part(arguments.workspace, ordered_at_), scratchpad);
    multiply_.launch({a, ordered, arguments.outputs[0]}, scratchpad);
  }

 private:
  void lay_out() {
    workspace_ = {};
    ordered_at_ = workspace_.add(b_.bytes());
    scratchpad_at_ = workspace_.add(std::max(multiply_.scratchpad_bytes(), b_.scratchpad_bytes()));
  }

  OneDnnCall multiply_;
  OrderedWeights b_;
  std::size_t ordered_at_ = 0, scratchpad_at_ = 0;
  WorkspaceLayout workspace_;
};

/// The same for calls that add to y: x is copied there first, unless it lies there.
class AddedMatmulKernel final : public MatmulKernel {
 public:
  AddedMatmulKernel(OneDnnCall multiply, OrderedWeights b, std::size_t y_bytes)
      : MatmulKernel(std::move(multiply), std::move(b)), y_bytes_(y_bytes) {}

  std::vector<InPlace> in_place() const override { return {{0, 0}}; }
  std::size_t weights_input() const override { return 2; }
  void launch(const KernelArguments& arguments) override {
    copy_bytes(arguments.outputs[0], arguments.inputs[0], y_bytes_);
    multiply(arguments, arguments.inputs[1], arguments.inputs[2]);
  }

 private:
  std::size_t y_bytes_;
};

/// With long rows brgemm reads a row-major b in place, which costs up to half of its speed: then, if there are enough
/// rows of y to pay for it, b is reordered as oneDNN likes it; bf16, of which instructions take pairs of rows, gains up
/// to a third. In other cases oneDNN copies b itself, into its scratchpad. A table of a large vocabulary is read in
/// place: a second copy of it would cost more memory than it is worth in time, 15 % where rows are that short.
bool wants_reordered_b(const MatmulProblem& p, Dtype dtype) {
  constexpr std::int64_t kMostElements = 1 << 24;  // 64 MiB
  const std::int64_t fewest_rows = p.transpose_a && dtype == Dtype::bf16 ? 768 : 128;
  return p.batch == 1 && !p.transpose_b && p.columns >= 768 && p.rows >= fewest_rows &&
         p.inner * p.columns <= kMostElements;
}

/// A product at once, and b as it reads it.
struct WholeProduct {
  OneDnnCall multiply;
  OrderedWeights b;
  std::size_t y_bytes = 0;
};
WholeProduct whole_product(OneDnn& onednn, const MatmulProblem& p, Dtype dtype, bool adds) {
  const auto [a, b, y] = matmul_layout(p, dtype, dtype);
  const memory::desc wanted_b =
      wants_reordered_b(p, dtype) ? memory::desc({p.inner, p.columns}, onednn_type(dtype), memory::format_tag::any) : b;
  const auto description = describe_matmul(onednn, a, wanted_b, y, adds);
  const memory::desc chosen_b = description.weights_desc();
  return {
      .multiply = OneDnnCall(onednn, description, {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, chosen_b}, {DNNL_ARG_DST, y}}),
      .b = {onednn, b, chosen_b},
      .y_bytes = y.get_size()};
}

}  // namespace

std::unique_ptr<Kernel> whole_product_kernel(OneDnn& onednn, const MatmulProblem& p, Dtype dtype) {
  if (dtype == Dtype::bf16 && !multiplies_bf16_of(p.inner)) return nullptr;
  WholeProduct product = whole_product(onednn, p, dtype, false);
  if (dtype == Dtype::bf16 && !is_jit(product.multiply.implementation())) return nullptr;
  return std::make_unique<MatmulKernel>(std::move(product.multiply), std::move(product.b));
}

std::unique_ptr<Kernel> added_product_kernel(OneDnn& onednn, const MatmulProblem& p) {
  WholeProduct product = whole_product(onednn, p, Dtype::f32, true);
  return std::make_unique<AddedMatmulKernel>(std::move(product.multiply), std::move(product.b), product.y_bytes);
}

}  // namespace sectionflow
