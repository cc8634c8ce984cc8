#include "kernels/cpu/blocked_matmul.h"

#include <algorithm>
#include <array>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "device/instruction_set.h"
#include "kernels/cpu/block_calls.h"
#include "kernels/cpu/onednn_matmul.h"
#include "kernels/cpu/rows.h"
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

/// Both kernels: calls for whole tiles and for the shorter one at the end, with workspace for any of them. Tensors are
/// stored as T, sums of tiles that others add to as f32.
template <class T>
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
  bool are_jit() const {
    return std::all_of(calls_.begin(), calls_.end(), [](const BlockCalls& calls) {
      return is_jit(calls.write.implementation()) && is_jit(calls.add.implementation());
    });
  }
  /// Workspace for b in order, `a_elements` of a, and `y_bytes`.
  void lay_out(std::int64_t a_elements, std::int64_t y_bytes) {
    std::size_t b_bytes = 0, scratchpad_bytes = 0;
    for (const BlockCalls& calls : calls_) {
      b_bytes = std::max(b_bytes, calls.b_bytes);
      scratchpad_bytes = std::max(scratchpad_bytes, calls.scratchpad_bytes());
    }
    b_at_ = workspace_.add(b_bytes);
    a_at_ = workspace_.add(static_cast<std::size_t>(a_elements) * sizeof(T));
    y_at_ = workspace_.add(static_cast<std::size_t>(y_bytes));
    scratchpad_at_ = workspace_.add(scratchpad_bytes);
  }

  /// The places of a launch.
  struct Places {
    const T *a, *b;
    T* y;
    void* ordered_b;
    T* a_tile;
    void* y_tile;
    void* scratchpad;
  };
  Places places(const KernelArguments& arguments) const {
    const auto part = [&](std::size_t at) { return workspace_part(arguments.workspace, at); };
    return {static_cast<const T*>(arguments.inputs[0]),
            static_cast<const T*>(arguments.inputs[1]),
            static_cast<T*>(arguments.outputs[0]),
            part(b_at_),
            static_cast<T*>(part(a_at_)),
            part(y_at_),
            part(scratchpad_at_)};
  }

  MatmulProblem p_;
  std::int64_t block_;
  std::vector<BlockCalls> calls_;  // of whole tiles; of the shorter one

 private:
  std::size_t a_at_ = 0, b_at_ = 0, y_at_ = 0, scratchpad_at_ = 0;
  WorkspaceLayout workspace_;
};

template <class T>
class BlockedRows final : public BlockedMatmul<T> {
 public:
  BlockedRows(OneDnn& onednn, const MatmulProblem& p, std::int64_t block, std::int64_t tile_elements)
      : BlockedMatmul<T>(p, block) {
    std::tie(inner_, columns_) = tiles_of(p.inner, p.columns, tile_elements);
    const auto add_calls = [&](std::int64_t inner, std::int64_t columns) {
      const memory::desc a = within(block, inner, inner, false, kDtype);
      const memory::desc b = within(inner, columns, p.transpose_b ? p.inner : p.columns, p.transpose_b, kDtype);
      const memory::desc y = within(block, columns, columns, false, has_sums() ? Dtype::f32 : kDtype);
      this->calls_.push_back(block_calls(onednn, a, b, y));
    };
    add_calls(inner_.size, columns_.size);
    if (inner_.rest() > 0) add_calls(inner_.rest(), columns_.size);
    if (columns_.rest() > 0) add_calls(inner_.size, columns_.rest());
    std::int64_t y_bytes = columns_.is_cut() ? block * columns_.size * static_cast<std::int64_t>(sizeof(T)) : 0;
    if (has_sums()) y_bytes = p.rows * p.columns * static_cast<std::int64_t>(sizeof(float));
    this->lay_out(inner_.is_cut() ? block * inner_.size : 0, y_bytes);
  }
  bool can_be_multiplied() const {
    return this->are_jit() && multiplies_bf16_of(inner_.size) &&
           (inner_.rest() == 0 || multiplies_bf16_of(inner_.rest()));
  }

  void launch(const KernelArguments& arguments) override {
    const Places at = this->places(arguments);
    const MatmulProblem& p = this->p_;
    for (std::int64_t column = 0; column < columns_.dim; column += columns_.size) {
      for (std::int64_t k = 0; k < inner_.dim; k += inner_.size) {
        const std::int64_t length = inner_.length(k), width = columns_.length(column);
        BlockCalls& calls = this->calls_[length < inner_.size || width < columns_.size ? 1 : 0];
        const T* b = at.b + (p.transpose_b ? column * p.inner + k : k * p.columns + column);
        const void* ordered_b = calls.in_order(b, at.ordered_b, at.scratchpad);
        for (std::int64_t row = 0; row < p.rows; row += this->block_) {
          compute_block(at, k == 0 ? calls.write : calls.add, ordered_b, {row, k, column});
        }
      }
    }
  }

 private:
  using Places = typename BlockedMatmul<T>::Places;
  static constexpr Dtype kDtype = dtype_of<T>;
  struct Begin {
    std::int64_t row, inner, column;
  };

  void compute_block(const Places& at, OneDnnCall& call, const void* ordered_b, const Begin& begin) {
    const MatmulProblem& p = this->p_;
    const std::int64_t block = this->block_, length = inner_.length(begin.inner), width = columns_.length(begin.column);
    const T* a = at.a + begin.row * p.inner + begin.inner;
    if (inner_.is_cut()) convert_rows(at.a_tile, length, std::exchange(a, at.a_tile), p.inner, block, length);
    T* y = at.y + begin.row * p.columns + begin.column;
    if (has_sums()) {
      float* sums = static_cast<float*>(at.y_tile) + begin.row * p.columns;
      call.launch({a, ordered_b, sums}, at.scratchpad);
      if (begin.inner + length == inner_.dim) convert_rows(y, p.columns, sums, width, block, width);
      return;
    }
    call.launch({a, ordered_b, columns_.is_cut() ? at.y_tile : y}, at.scratchpad);
    if (columns_.is_cut()) convert_rows(y, p.columns, static_cast<const T*>(at.y_tile), width, block, width);
  }

  /// Whether sums of several products are to be rounded: they are f32 until the last is added. Then a is longer than y
  /// by far, and columns are not cut.
  bool has_sums() const { return inner_.is_cut() && kDtype == Dtype::bf16; }

  Tiles inner_{}, columns_{};  // of b
};

class BlockedSum final : public BlockedMatmul<float> {
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
    lay_out(rows_.is_cut() ? rows_.size * block : 0,
            columns_.is_cut() ? rows_.size * columns_.size * static_cast<std::int64_t>(sizeof(float)) : 0);
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
    float* sum = columns_.is_cut() ? static_cast<float*>(at.y_tile) : y;
    if (columns_.is_cut() && adds_) convert_rows(sum, width, y, p_.columns, height, width);
    for (std::int64_t k = 0; k < p_.inner; k += block_) {
      const float* a = at.a + k * p_.rows + row;
      if (rows_.is_cut()) calls.order_a.launch({std::exchange(a, at.a_tile), at.a_tile}, at.scratchpad);
      const void* ordered_b = calls.in_order(at.b + k * p_.columns + column, at.ordered_b, at.scratchpad);
      (k == 0 && !adds_ ? calls.write : calls.add).launch({a, ordered_b, sum}, at.scratchpad);
    }
    if (columns_.is_cut()) convert_rows(y, p_.columns, sum, width, height, width);
  }

  bool adds_;
  Tiles rows_{}, columns_{};  // of y
};

}  // namespace

std::unique_ptr<Kernel> blocked_rows_kernel(OneDnn& onednn, const MatmulProblem& problem, std::int64_t block,
                                            Dtype dtype, std::int64_t tile_elements) {
  if (dtype != Dtype::bf16) return std::make_unique<BlockedRows<float>>(onednn, problem, block, tile_elements);
  if (!multiplies_bf16()) return nullptr;  // oneDNN would not even describe it
  auto kernel = std::make_unique<BlockedRows<BFloat16>>(onednn, problem, block, tile_elements);
  return kernel->can_be_multiplied() ? std::move(kernel) : nullptr;
}

std::unique_ptr<Kernel> blocked_sum_kernel(OneDnn& onednn, const MatmulProblem& problem, std::int64_t block, bool adds,
                                           std::int64_t tile_elements) {
  return std::make_unique<BlockedSum>(onednn, problem, block, adds, tile_elements);
}

}  // namespace sectionflow
