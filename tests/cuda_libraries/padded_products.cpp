// Products whose rows are copied to where tensor cores take them.

#include "graph/nodes/matmul.h"
#include "kernels/cuda/library/padded_product.h"
#include "tests/cuda_libraries/library_case.h"

namespace sectionflow {
namespace {

using gpu::PaddedProduct;
using gpu::PaddingRule;
using testing_support::fake_libraries;

constexpr std::int64_t kRows = 8192, kWidth = 768, kWords = 50257;
constexpr std::size_t kMiB = std::size_t{1} << 20;

/// The logits of a vocabulary, and the gradients of rows and table.
const MatmulProblem kLogits{.rows = kRows, .inner = kWidth, .columns = kWords, .transpose_b = true};
const MatmulProblem kRowsGradient{.rows = kRows, .inner = kWords, .columns = kWidth};
const MatmulProblem kTableGradient{.rows = kWords, .inner = kRows, .columns = kWidth, .transpose_a = true};

std::size_t copied_bytes(const PaddedProduct& p) {
  std::size_t bytes = 0;
  for (const gpu::PaddedOperand& x : p.operands) bytes += p.copy_bytes(x);
  return bytes;
}

TEST(PaddedProduct, OfAVocabularyHasPartsThatFillItsScratch) {
  struct Case {
    const MatmulProblem& problem;
    std::size_t padded;  // operand
    std::int64_t parts_of_bf16, parts_of_f32;
  };
  for (const Case& c : {Case{kLogits, 2, 13, 26}, {kRowsGradient, 0, 13, 26}, {kTableGradient, 0, 13, 25}}) {
    for (std::size_t bytes : {2, 4}) {
      const auto p = PaddedProduct::of(c.problem, bytes, {});
      ASSERT_TRUE(p.has_value());
      EXPECT_TRUE(p->cuts_rows);
      EXPECT_EQ(p->num_parts(), bytes == 2 ? c.parts_of_bf16 : c.parts_of_f32);
      for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(p->operands[i].is_padded, i == c.padded);
      EXPECT_LE(copied_bytes(*p), 64 * kMiB);
      EXPECT_GT(copied_bytes(*p), 58 * kMiB);
      // No part is much smaller than others.
      EXPECT_GT(2 * p->count_of(p->num_parts() - 1), p->part);
    }
  }
}

TEST(PaddedProduct, CopiesATableThatNoPartCutsWhole) {
  // The table of a dense layer lies the other way round: [width, words].
  const MatmulProblem logits{.rows = kRows, .inner = kWidth, .columns = kWords},
      rows_gradient{.rows = kRows, .inner = kWords, .columns = kWidth, .transpose_b = true};
  const auto by_words = PaddedProduct::of(logits, 2, {});
  ASSERT_TRUE(by_words.has_value());
  EXPECT_FALSE(by_words->cuts_rows);
  EXPECT_LE(copied_bytes(*by_words), 64 * kMiB);
  const auto whole = PaddedProduct::of(rows_gradient, 2, {});
  ASSERT_TRUE(whole.has_value());
  EXPECT_GE(whole->copy_bytes(whole->operands[1]), std::size_t{kWidth * kWords * 2});
  EXPECT_LE(whole->copy_bytes(whole->operands[0]), 64 * kMiB);
  EXPECT_FALSE(PaddedProduct::of(rows_gradient, 2, {.most_of_operands = 0}));
}

TEST(PaddedProduct, IsOfNothingThatBeginsWellOrIsSoonDone) {
  MatmulProblem p = kLogits;
  p.columns = 50264;
  EXPECT_FALSE(PaddedProduct::of(p, 2, {}));
  p.columns = 50260;
  EXPECT_TRUE(PaddedProduct::of(p, 2, {}) && !PaddedProduct::of(p, 4, {}));
  // A few operations for each byte.
  p = kLogits;
  p.inner = 64;
  EXPECT_FALSE(PaddedProduct::of(p, 2, {}));
  // Many, and few in all.
  EXPECT_FALSE(PaddedProduct::of({.rows = 256, .inner = 1024, .columns = 1025}, 2, {}));
  p = kLogits;
  p.batch = 2;
  EXPECT_FALSE(PaddedProduct::of(p, 2, {}));
  // A row that alone is more than the scratch.
  EXPECT_FALSE(PaddedProduct::of(kLogits, 2, {.most_part_bytes = 1 << 20}));
}

/// Pads all rows that begin badly, in scratch of few rows.
constexpr PaddingRule kSmall{
    .most_part_bytes = 8 * 1024, .least_work = 0, .least_work_of_byte = 0, .most_of_operands = 1};

class PaddedProducts : public testing_support::LibraryCase {
 protected:
  PaddedProducts() {
    kernels_ = KernelRegistry();
    const auto add = [&](const char* op, KernelFactory make) { kernels_.add(op, make, Bf16::native); };
    add("matmul", [](const KernelRequest& request) { return make_cublas_matmul(request, kSmall); });
    add("add_matmul", [](const KernelRequest& request) { return make_cublas_add_matmul(request, kSmall); });
    add("matmul_over_rows", [](const KernelRequest& request) { return make_cublas_matmul_over_rows(request, kSmall); });
  }

  void expect_padded(Value y, const MatmulProblem& problem) {
    const auto product = PaddedProduct::of(problem, dtype_bytes(y.dtype()), kSmall);
    ASSERT_TRUE(product.has_value());
    fake_libraries().workspace_bytes = 0;
    forget_choices();
    EXPECT_NE(make(y)->implementation().find(", rows padded in scratch"), std::string::npos);
    expect_as_on_the_cpu(y, static_cast<int>(product->num_parts()));
  }
};

TEST_F(PaddedProducts, AreTheCpus) {
  fake_libraries().allow_tf32 = true;
  const auto expect_product = [&](Dtype dtype, std::array<std::int64_t, 3> sizes, MatmulOptions options, bool adds) {
    const auto& [rows, inner, columns] = sizes;
    const MatmulProblem problem{.rows = rows,
                                .inner = inner,
                                .columns = columns,
                                .transpose_a = options.transpose_a,
                                .transpose_b = options.transpose_b};
    const Value a = tensor(options.transpose_a ? Shape{inner, rows} : Shape{rows, inner}, dtype),
                b = tensor(options.transpose_b ? Shape{columns, inner} : Shape{inner, columns}, dtype);
    expect_padded(adds ? add_matmul(tensor({rows, columns}, dtype), a, b, options) : matmul(a, b, options), problem);
  };
  // All matrices begin badly, or y alone, or a alone; parts of rows or of columns, of which the last is smaller.
  for (bool turned : {false, true}) {
    expect_product(Dtype::bf16, {70, 3, 9}, {.transpose_a = turned}, !turned);
    expect_product(Dtype::bf16, {9, 3, 150}, {.transpose_b = !turned}, turned);
    expect_product(Dtype::bf16, {150, 8, 9}, {.transpose_b = true}, turned);
    expect_product(Dtype::bf16, {150, 3, 8}, {}, turned);
  }
  expect_product(Dtype::f32, {67, 3, 9}, {}, true);
  expect_padded(matmul_over_rows(tensor({2, 2, 67}), tensor({2, 2, 8})),
                {.rows = 67, .inner = 4, .columns = 8, .transpose_a = true});
}

TEST_F(PaddedProducts, AreNotOfF32WithoutTensorCores) {
  EXPECT_EQ(make(matmul(tensor({150, 13}), tensor({13, 200})))->implementation().find("padded"), std::string::npos);
}

TEST_F(PaddedProducts, AreLeftAloneWhereThereIsNoAlgorithmForAPart) {
  const Value y = matmul(tensor({150, 13}, Dtype::bf16), tensor({13, 200}, Dtype::bf16));
  use({.has_sound_algorithms = false});
  EXPECT_FALSE(is_taken(y));
}

}  // namespace
}  // namespace sectionflow
