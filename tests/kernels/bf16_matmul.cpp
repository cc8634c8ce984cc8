#include "kernels/cpu/bf16_matmul.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "base/dtype.h"
#include "device/cpu_device.h"
#include "device/instruction_set.h"
#include "device/parallel.h"
#include "kernels/cpu/blocked_matmul.h"
#include "kernels/cpu/onednn_matmul.h"

namespace sectionflow {
namespace {

using Bf16Numbers = std::vector<BFloat16>;

Bf16Numbers drawn_bf16(std::int64_t count, std::mt19937& random) {
  std::uniform_real_distribution<float> numbers(-1, 1);
  Bf16Numbers values(static_cast<std::size_t>(count));
  for (BFloat16& value : values) value = BFloat16(numbers(random));
  return values;
}

/// The kernel's result, on workspace full of NaN.
Bf16Numbers result_of(Kernel& kernel, const MatmulProblem& p, const Bf16Numbers& a, const Bf16Numbers& b) {
  Bf16Numbers y(static_cast<std::size_t>(p.rows * p.columns), BFloat16(NAN));
  std::vector<std::uint8_t> workspace(kernel.workspace_bytes() + 64, 0xFF);
  const std::vector<const void*> inputs = {a.data(), b.data()};
  const std::vector<void*> outputs = {y.data()};
  auto* aligned = workspace.data() + (64 - reinterpret_cast<std::uintptr_t>(workspace.data()) % 64) % 64;
  kernel.launch({.inputs = inputs, .outputs = outputs, .updated = {}, .workspace = aligned, .random = {}});
  return y;
}

/// Within a rounding to bf16, and what sums of f32 lose.
void expect_product(const MatmulProblem& p, const Bf16Numbers& a, const Bf16Numbers& b, const Bf16Numbers& y) {
  for (std::int64_t i = 0; i < p.rows; ++i) {
    for (std::int64_t j = 0; j < p.columns; ++j) {
      double sum = 0, size = 0;
      for (std::int64_t k = 0; k < p.inner; ++k) {
        const double term = static_cast<double>(a[p.transpose_a ? k * p.rows + i : i * p.inner + k]) *
                            b[p.transpose_b ? j * p.inner + k : k * p.columns + j];
        sum += term;
        size += std::abs(term);
      }
      ASSERT_NEAR(y[i * p.columns + j], sum, std::abs(sum) * 0x1p-8 + size * 0x1p-22) << i << ", " << j;
    }
  }
}

class Bf16Matmul : public testing::Test {
 protected:
  ComputeTeam team{2};
  CpuDevice device{2};
  std::mt19937 random{7};
};

TEST_F(Bf16Matmul, IsTheProductInTilesOfAnySize) {
  const Bf16Tiles one{}, many{.elements = 64 * 128, .long_side = 64};
  for (const auto& [rows, inner, columns] : {std::array<std::int64_t, 3>{150, 200, 300},
                                             {64, 300, 40},
                                             {300, 70, 64},
                                             {1, 257, 513},
                                             {257, 1, 1},
                                             {129, 640, 65}}) {
    for (const int transposed : {0, 1, 2, 3}) {
      const MatmulProblem p{.rows = rows,
                            .inner = inner,
                            .columns = columns,
                            .transpose_a = (transposed & 1) != 0,
                            .transpose_b = (transposed & 2) != 0};
      SCOPED_TRACE(testing::Message() << rows << " x " << inner << " x " << columns << ", transposed " << transposed);
      const Bf16Numbers a = drawn_bf16(rows * inner, random), b = drawn_bf16(inner * columns, random);
      for (const Bf16Tiles& tiles : {one, many}) {
        expect_product(p, a, b, result_of(*bf16_matmul_kernel(device.onednn(), p, 0, tiles), p, a, b));
      }
    }
  }
}

TEST_F(Bf16Matmul, HasTheBitsOfARowInAnyNumberOfBlocks) {
  constexpr std::int64_t kBlock = 32;
  MatmulProblem whole{.rows = 3 * kBlock, .inner = 130, .columns = 200, .transpose_b = true}, part = whole;
  part.rows = kBlock;
  const Bf16Tiles tiles{.elements = 64 * 64, .long_side = 64};
  const Bf16Numbers a = drawn_bf16(whole.rows * whole.inner, random),
                    b = drawn_bf16(whole.inner * whole.columns, random);
  const Bf16Numbers all = result_of(*bf16_matmul_kernel(device.onednn(), whole, kBlock, tiles), whole, a, b);
  expect_product(whole, a, b, all);
  for (std::int64_t block = 0; block < 3; ++block) {
    const Bf16Numbers rows(a.begin() + block * kBlock * whole.inner, a.begin() + (block + 1) * kBlock * whole.inner);
    const Bf16Numbers y = result_of(*bf16_matmul_kernel(device.onednn(), part, kBlock, tiles), part, rows, b);
    EXPECT_EQ(std::memcmp(y.data(), all.data() + block * kBlock * whole.columns, y.size() * sizeof(BFloat16)), 0);
  }
}

/// Tiles of the other factor, of which columns or inner dimension are cut: then sums of several products are rounded.
TEST_F(Bf16Matmul, IsTheProductInBlocksOfRowsAndHasTheirBitsInAnyNumber) {
  if (!multiplies_bf16()) GTEST_SKIP() << "no instructions for products of bf16";
  constexpr std::int64_t kBlock = 64, kTile = 256 * 64;
  for (const auto& [inner, columns] :
       {std::pair<std::int64_t, std::int64_t>{130, 700}, {700, 130}, {64, 65}, {2, 300}}) {
    for (const bool transposed : {false, true}) {
      SCOPED_TRACE(testing::Message() << inner << " x " << columns << ", transposed " << transposed);
      MatmulProblem whole{.rows = 3 * kBlock, .inner = inner, .columns = columns, .transpose_b = transposed};
      MatmulProblem part = whole;
      part.rows = kBlock;
      const Bf16Numbers a = drawn_bf16(whole.rows * inner, random), b = drawn_bf16(inner * columns, random);
      const auto kernel = [&](const MatmulProblem& p) {
        return blocked_rows_kernel(device.onednn(), p, kBlock, Dtype::bf16, kTile);
      };
      ASSERT_NE(kernel(whole), nullptr);
      const Bf16Numbers all = result_of(*kernel(whole), whole, a, b);
      expect_product(whole, a, b, all);
      for (std::int64_t block = 0; block < 3; ++block) {
        const auto row = a.begin() + block * kBlock * inner;
        const Bf16Numbers y = result_of(*kernel(part), part, {row, row + kBlock * inner}, b);
        EXPECT_EQ(std::memcmp(y.data(), all.data() + block * kBlock * columns, y.size() * sizeof(BFloat16)), 0);
      }
    }
  }
}

/// oneDNN's code for it ends in an illegal instruction, or in wrong numbers.
TEST_F(Bf16Matmul, IsNotLeftToOneDnnWhereFewTermsAreOdd) {
  for (const std::int64_t inner : {1, 31, 63}) {
    const MatmulProblem p{.rows = 79, .inner = inner, .columns = 64};
    EXPECT_EQ(whole_product_kernel(device.onednn(), p, Dtype::bf16), nullptr) << inner;
    EXPECT_FALSE(multiplies_bf16_of(inner)) << inner;
  }
  // The rest of a tile of 256 terms.
  const MatmulProblem head{.rows = 64, .inner = 256 + 63, .columns = 64, .transpose_b = true};
  EXPECT_EQ(blocked_rows_kernel(device.onednn(), head, 64, Dtype::bf16, 64 * 64), nullptr);
}

TEST_F(Bf16Matmul, TakesNoMoreWorkspaceForLargerMatrices) {
  const auto workspace = [&](std::int64_t dim) {
    const MatmulProblem p{.rows = dim, .inner = dim, .columns = dim};
    return bf16_matmul_kernel(device.onednn(), p, 0)->workspace_bytes();
  };
  EXPECT_LE(workspace(16384), workspace(4096) + workspace(4096) / 10);
  EXPECT_LT(workspace(16384), std::size_t{64} << 20);
}

}  // namespace
}  // namespace sectionflow
