#include "kernels/cpu/blocked_matmul.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "device/parallel.h"
#include "kernels/cpu/block_calls.h"
#include "kernels/function_kernel.h"

namespace sectionflow {
namespace {

using dnnl::memory;

/// The longer of two dimensions is cut, so that a tile has about `tile_elements`; the other is one tile.
std::pair<Tiles, Tiles> tiles_of(std::int64_t first, std::int64_t second, std::int64_t tile_elements) {
  constexpr std::int64_t kShortest = 256, kStep = 64;
  const auto [shorter, longer] = std::minmax(first, second);
  const std::int64_t size = std::min(longer, std::max(kShortest, tile_elements / shorter / kStep * kStep));
  return first > second ? std::pair(Tiles{first, size}, Tiles{second, second})
                        : std::pair(Tiles{first, first}, Tiles{second, size});
}

/// Rows of `length` floats, from where they lie `from_step` apart to where they lie `to_step` apart.
void copy_matrix(float* to, std::int64_t to_step, const float* from, std::int64_t from_step, std::int64_t num_rows,
                 std::int64_t length) {
  parallel_for(num_rows, std::max<std::int64_t>(1, kParallelGrain / length), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      std::memcpy(to + row * to_step, from + row * from_step, static_cast<std::size_t>(length) * sizeof(float));
    }
  });
}

/// Both kernels: calls for whole tiles and for the shorter one at the end, with workspace for any of them.
class BlockedMatmul : public Kernel {
 public:
  BlockedMatmul(const MatmulProblem& problem, std::int64_t block) : p_(problem), block_(block) {}

  std::string implementation() const override {
    return "onednn " + calls_[0].write.implementation() + " in blocks of " + std::to_string(block_) + " rows";
  }
  std::size_t workspace_bytes() const override { return workspace_.num_bytes(); }
  std::size_t library_bytes() const override {
    std::size_t sum = 0;
    for (const BlockCalls& calls : calls_) sum += calls.library_bytes();
    return sum;
  }

 protected:
  /// Workspace for b in order, `a_elements` and `y_elements`.
  void lay_out(std::int64_t a_elements, std::int64_t y_elements) {
    std::size_t b_bytes = 0, scratchpad_bytes = 0;
    for (const BlockCalls& calls : calls_) {
      b_bytes = std::max(b_bytes, calls.b_bytes);
      scratchpad_bytes = std::max(scratchpad_bytes, calls.scratchpad_bytes());
    }
    b_at_ = workspace_.add(b_bytes);
    a_at_ = workspace_.add(static_cast<std::size_t>(a_elements) * sizeof(float));
    y_at_ = workspace_.add(static_cast<std::size_t>(y_elements) * sizeof(float));
    scratchpad_at_ = workspace_.add(scratchpad_bytes);
  }

  /// The places of a launch.
  struct Places {
    const float *a, *b;
    float* y;
    void* ordered_b;
    float *a_tile, *y_tile;
    void* scratchpad;
  };
  Places places(const KernelArguments& arguments) const {
    const auto part = [&](std::size_t at) { return workspace_part(arguments.workspace, at); };
    return {static_cast<const float*>(arguments.inputs[0]),
            static_cast<const float*>(arguments.inputs[1]),
            static_cast<float*>(arguments.outputs[0]),
            part(b_at_),
            static_cast<float*>(part(a_at_)),
            static_cast<float*>(part(y_at_)),
            part(scratchpad_at_)};
  }

  MatmulProblem p_;
  std::int64_t block_;
  std::vector<BlockCalls> calls_;  // of whole tiles; of the shorter one

 private:
  std::size_t a_at_ = 0, b_at_ = 0, y_at_ = 0, scratchpad_at_ = 0;
  WorkspaceLayout workspace_;
};

class BlockedRows final : public BlockedMatmul {
 public:
  BlockedRows(OneDnn& onednn, const MatmulProblem& p, std::int64_t block, std::int64_t tile_elements)
      : BlockedMatmul(p, block) {
    std::tie(inner_, columns_) = tiles_of(p.inner, p.columns, tile_elements);
    const auto add_calls = [&](std::int64_t inner, std::int64_t columns) {
      const memory::desc b = within(inner, columns, p.transpose_b ? p.inner : p.columns, p.transpose_b);
      calls_.push_back(block_calls(onednn, within(block, inner, inner), b, within(block, columns, columns)));
    };
    add_calls(inner_.size, columns_.size);
    if (inner_.rest() > 0) add_calls(inner_.rest(), columns_.size);
    if (columns_.rest() > 0) add_calls(inner_.size, columns_.rest());
    lay_out(inner_.is_cut() ? block * inner_.size : 0, columns_.is_cut() ? block * columns_.size : 0);
  }

  void launch(const KernelArguments& arguments) override {
    const Places at = places(arguments);
    for (std::int64_t column = 0; column < columns_.dim; column += columns_.size) {
      for (std::int64_t k = 0; k < inner_.dim; k += inner_.size) {
        const std::int64_t length = inner_.length(k), width = columns_.length(column);
        BlockCalls& calls = calls_[length < inner_.size || width < columns_.size ? 1 : 0];
        const float* b = at.b + (p_.transpose_b ? column * p_.inner + k : k * p_.columns + column);
        const void* ordered_b = calls.in_order(b, at.ordered_b, at.scratchpad);
        for (std::int64_t row = 0; row < p_.rows; row += block_) {
          const float* a = at.a + row * p_.inner + k;
          if (inner_.is_cut()) copy_matrix(at.a_tile, length, std::exchange(a, at.a_tile), p_.inner, block_, length);
          float* y = at.y + row * p_.columns + column;
          (k == 0 ? calls.write : calls.add).launch({a, ordered_b, columns_.is_cut() ? at.y_tile : y}, at.scratchpad);
          if (columns_.is_cut()) copy_matrix(y, p_.columns, at.y_tile, width, block_, width);
        }
      }
    }
  }

 private:
  Tiles inner_{}, columns_{};  // of b
};

class BlockedSum final : public BlockedMatmul {
 public:
  BlockedSum(OneDnn& onednn, const MatmulProblem& p, std::int64_t block, bool adds, std::int64_t tile_elements)
      : BlockedMatmul(p, block), adds_(adds) {
    std::tie(rows_, columns_) = tiles_of(p.rows, p.columns, tile_elements);
    const auto add_calls = [&](std::int64_t rows, std::int64_t columns) {
      const memory::desc lying_a = within(rows, block, p.rows, true), ordered_a = within(rows, block, block);
      const memory::desc& a = rows_.is_cut() ? ordered_a : lying_a;
      calls_.push_back(block_calls(onednn, a, within(block, columns, p.columns), within(rows, columns, columns)));
      if (rows_.is_cut()) calls_.back().order_a = make_reorder(onednn, lying_a, ordered_a);
    };
    add_calls(rows_.size, columns_.size);
    if (rows_.rest() > 0) add_calls(rows_.rest(), columns_.size);
    if (columns_.rest() > 0) add_calls(rows_.size, columns_.rest());
    lay_out(rows_.is_cut() ? rows_.size * block : 0, columns_.is_cut() ? rows_.size * columns_.size : 0);
  }

  void launch(const KernelArguments& arguments) override {
    const Places at = places(arguments);
    for (std::int64_t row = 0; row < rows_.dim; row += rows_.size) {
      for (std::int64_t column = 0; column < columns_.dim; column += columns_.size) sum_tile(at, row, column);
    }
  }

 private:
  /// The tile of y that begins there, from all blocks.
  void sum_tile(const Places& at, std::int64_t row, std::int64_t column) {
    const std::int64_t height = rows_.length(row), width = columns_.length(column);
    BlockCalls& calls = calls_[height < rows_.size || width < columns_.size ? 1 : 0];
    float* y = at.y + row * p_.columns + column;
    float* sum = columns_.is_cut() ? at.y_tile : y;
    if (columns_.is_cut() && adds_) copy_matrix(sum, width, y, p_.columns, height, width);
    for (std::int64_t k = 0; k < p_.inner; k += block_) {
      const float* a = at.a + k * p_.rows + row;
      if (rows_.is_cut()) calls.order_a.launch({std::exchange(a, at.a_tile), at.a_tile}, at.scratchpad);
      const void* ordered_b = calls.in_order(at.b + k * p_.columns + column, at.ordered_b, at.scratchpad);
      (k == 0 && !adds_ ? calls.write : calls.add).launch({a, ordered_b, sum}, at.scratchpad);
    }
    if (columns_.is_cut()) copy_matrix(y, p_.columns, sum, width, height, width);
  }

  bool adds_;
  Tiles rows_{}, columns_{};  // of y
};

}  // namespace

std::unique_ptr<Kernel> blocked_rows_kernel(OneDnn& onednn, const MatmulProblem& problem, std::int64_t block,
                                            std::int64_t tile_elements) {
  return std::make_unique<BlockedRows>(onednn, problem, block, tile_elements);
}

std::unique_ptr<Kernel> blocked_sum_kernel(OneDnn& onednn, const MatmulProblem& problem, std::int64_t block, bool adds,
                                           std::int64_t tile_elements) {
  return std::make_unique<BlockedSum>(onednn, problem, block, adds, tile_elements);
}

}  // namespace sectionflow
