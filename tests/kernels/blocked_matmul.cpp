#include "kernels/cpu/blocked_matmul.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "device/cpu_device.h"
#include "device/parallel.h"

namespace sectionflow {
namespace {

using Floats = std::vector<float>;

Floats drawn(std::int64_t count, std::mt19937& random) {
  std::uniform_real_distribution<float> numbers(-1, 1);
  Floats values(static_cast<std::size_t>(count));
  for (float& value : values) value = numbers(random);
  return values;
}

Floats reference(const MatmulProblem& p, const Floats& a, const Floats& b) {
  Floats y;
  for (std::int64_t i = 0; i < p.rows; ++i) {
    for (std::int64_t j = 0; j < p.columns; ++j) {
      double sum = 0;
      for (std::int64_t k = 0; k < p.inner; ++k) {
        sum += static_cast<double>(a[p.transpose_a ? k * p.rows + i : i * p.inner + k]) *
               b[p.transpose_b ? j * p.inner + k : k * p.columns + j];
      }
      y.push_back(static_cast<float>(sum));
    }
  }
  return y;
}

/// Launches on workspace full of NaN.
void launch(Kernel& kernel, const float* a, const float* b, float* y) {
  std::vector<std::uint8_t> workspace(kernel.workspace_bytes() + 64, 0xFF);
  const std::vector<const void*> inputs = {a, b};
  const std::vector<void*> outputs = {y};
  auto* aligned = workspace.data() + (64 - reinterpret_cast<std::uintptr_t>(workspace.data()) % 64) % 64;
  kernel.launch({.inputs = inputs, .outputs = outputs, .updated = {}, .workspace = aligned, .random = {}});
}

void expect_near(const Floats& found, const Floats& wanted, double tolerance, const std::string& what) {
  ASSERT_EQ(found.size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) ASSERT_NEAR(found[i], wanted[i], tolerance) << what << " at " << i;
}

void expect_bits(const Floats& found, const Floats& wanted, const std::string& what) {
  ASSERT_EQ(found.size(), wanted.size());
  EXPECT_EQ(std::memcmp(found.data(), wanted.data(), wanted.size() * sizeof(float)), 0) << what;
}

constexpr std::int64_t kShortTiles = 1;  // as short as they are made

struct Problem {
  const char* name;
  MatmulProblem problem;
  std::int64_t block;
};

class BlockedMatmul : public testing::TestWithParam<Problem> {
 protected:
  BlockedMatmul() {
    const MatmulProblem& p = GetParam().problem;
    a = drawn(p.rows * p.inner, random);
    b = drawn(p.inner * p.columns, random);
    y.assign(static_cast<std::size_t>(p.rows * p.columns), NAN);
  }

  /// The kernel for so many rows of the problem's a.
  std::unique_ptr<Kernel> kernel(std::int64_t rows, bool adds, std::int64_t tile_elements) {
    auto [name, p, block] = GetParam();
    (p.transpose_a ? p.inner : p.rows) = rows;
    return p.transpose_a ? blocked_sum_kernel(device.onednn(), p, block, adds, tile_elements)
                         : blocked_rows_kernel(device.onednn(), p, block, Dtype::f32, tile_elements);
  }
  std::int64_t rows() const {
    const MatmulProblem& p = GetParam().problem;
    return p.transpose_a ? p.inner : p.rows;
  }

  ComputeTeam team{2};
  CpuDevice device{2};
  std::mt19937 random{7};
  Floats a, b, y;
};

TEST_P(BlockedMatmul, IsTheProduct) {
  for (std::int64_t tile_elements : {kShortTiles, kMatmulTileElements}) {
    launch(*kernel(rows(), false, tile_elements), a.data(), b.data(), y.data());
    expect_near(y, reference(GetParam().problem, a, b), 1e-4, "tiles of " + std::to_string(tile_elements));
  }
}

TEST_P(BlockedMatmul, AddsToWhatIsThere) {
  if (!GetParam().problem.transpose_a) GTEST_SKIP() << "for sums";
  for (std::int64_t tile_elements : {kShortTiles, kMatmulTileElements}) {
    Floats wanted = reference(GetParam().problem, a, b);
    y = drawn(static_cast<std::int64_t>(y.size()), random);
    for (std::size_t i = 0; i < y.size(); ++i) wanted[i] += y[i];
    launch(*kernel(rows(), true, tile_elements), a.data(), b.data(), y.data());
    expect_near(y, wanted, 1e-4, "tiles of " + std::to_string(tile_elements));
  }
}

TEST_P(BlockedMatmul, HasTheSameBitsInPartsOfWholeBlocks) {
  const auto& [name, p, block] = GetParam();
  for (std::int64_t tile_elements : {kShortTiles, kMatmulTileElements}) {
    launch(*kernel(rows(), false, tile_elements), a.data(), b.data(), y.data());
    const Floats at_once = y;
    for (std::int64_t of_part : {block, rows() / 2}) {
      y.assign(y.size(), NAN);
      for (std::int64_t row = 0; row < rows(); row += of_part) {
        const auto of_rows = kernel(of_part, row > 0, tile_elements);
        if (p.transpose_a) {
          launch(*of_rows, a.data() + row * p.rows, b.data() + row * p.columns, y.data());
        } else {
          launch(*of_rows, a.data() + row * p.inner, b.data(), y.data() + row * p.columns);
        }
      }
      expect_bits(y, at_once, std::to_string(of_part) + " rows a part, tiles of " + std::to_string(tile_elements));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Cases, BlockedMatmul,
    testing::Values(Problem{"wide_y", {.rows = 12, .inner = 5, .columns = 700}, 3},
                    Problem{"wide_y_of_whole_tiles", {.rows = 12, .inner = 5, .columns = 512}, 3},
                    Problem{"wide_y_b_transposed", {.rows = 12, .inner = 5, .columns = 700, .transpose_b = true}, 3},
                    Problem{"wide_a", {.rows = 12, .inner = 700, .columns = 5}, 3},
                    Problem{"wide_a_b_transposed", {.rows = 12, .inner = 700, .columns = 5, .transpose_b = true}, 3},
                    Problem{"narrow", {.rows = 12, .inner = 9, .columns = 5}, 3},
                    Problem{"sum_wide_a", {.rows = 700, .inner = 12, .columns = 5, .transpose_a = true}, 3},
                    Problem{"sum_wide_b", {.rows = 5, .inner = 12, .columns = 700, .transpose_a = true}, 3},
                    Problem{"sum_of_whole_tiles", {.rows = 512, .inner = 12, .columns = 5, .transpose_a = true}, 3},
                    Problem{"sum_narrow", {.rows = 9, .inner = 12, .columns = 5, .transpose_a = true}, 3}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(BlockedMatmul, TakesWorkspaceForATileAndNotForTheWhole) {
  CpuDevice device(2);
  const MatmulProblem head{.rows = 1024, .inner = 768, .columns = 50257, .transpose_b = true};
  const MatmulProblem rows{.rows = 1024, .inner = 50257, .columns = 768};
  const MatmulProblem table{.rows = 50257, .inner = 1024, .columns = 768, .transpose_a = true};
  constexpr std::size_t kMost = std::size_t{24} << 20;  // tables are of 147 MiB
  EXPECT_LT(blocked_rows_kernel(device.onednn(), head, 256)->workspace_bytes(), kMost);
  EXPECT_LT(blocked_rows_kernel(device.onednn(), rows, 256)->workspace_bytes(), kMost);
  EXPECT_LT(blocked_sum_kernel(device.onednn(), table, 256, false)->workspace_bytes(), kMost);
}

}  // namespace
}  // namespace sectionflow
