#include "kernels/cpu/bf16_matmul.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>

#include "base/dtype.h"
#include "kernels/cpu/block_calls.h"
#include "kernels/cpu/rows.h"
#include "kernels/function_kernel.h"

namespace sectionflow {
namespace {

/// Tiles of nearly one size, of `most` at most.
Tiles even_tiles(std::int64_t dim, std::int64_t most) {
  constexpr std::int64_t kStep = 64;
  most = std::max(most / kStep * kStep, kStep);
  if (dim <= most) return {dim, dim};
  const std::int64_t count = (dim + most - 1) / most;
  return {dim, ((dim + count - 1) / count + kStep - 1) / kStep * kStep};
}

/// A factor as it lies in memory: a matrix of `columns` a row, of which tiles are widened, densely.
struct Factor {
  std::int64_t columns;
  bool is_transposed;

  /// The tile of `height` x `width` at (row, column) of the factor as the product has it.
  void widen(const BFloat16* from, std::int64_t row, std::int64_t column, std::int64_t height, std::int64_t width,
             float* to) const {
    if (is_transposed) std::swap(row, column), std::swap(height, width);
    convert_rows(to, width, from + row * columns + column, columns, height, width);
  }
  dnnl::memory::desc layout(std::int64_t height, std::int64_t width) const {
    return within(height, width, is_transposed ? height : width, is_transposed);
  }
};

class Bf16Matmul final : public Kernel {
 public:
  Bf16Matmul(OneDnn& onednn, const MatmulProblem& p, std::int64_t block, const Bf16Tiles& tiles)
      : p_(p),
        rows_(block > 0 ? Tiles{p.rows, block} : even_tiles(p.rows, tiles.long_side)),
        inner_(even_tiles(p.inner, p.columns > tiles.long_side
                                       ? tiles.long_side
                                       : tiles.elements / std::max(tiles.long_side, p.columns))),
        columns_(even_tiles(p.columns, tiles.elements / std::max({tiles.long_side / 2, inner_.size, rows_.size}))),
        a_{p.transpose_a ? p.rows : p.inner, p.transpose_a},
        b_{p.transpose_b ? p.inner : p.columns, p.transpose_b} {
    std::size_t b_bytes = 0, scratchpad_bytes = 0;
    for_each_size([&](std::int64_t height, std::int64_t length, std::int64_t width) {
      const std::array<std::int64_t, 3> size = {height, length, width};
      if (calls_.count(size) > 0) return;
      const BlockCalls& calls = calls_
                                    .emplace(size, block_calls(onednn, a_.layout(height, length),
                                                               b_.layout(length, width), within(height, width, width)))
                                    .first->second;
      b_bytes = std::max(b_bytes, calls.b_bytes);
      scratchpad_bytes = std::max(scratchpad_bytes, calls.scratchpad_bytes());
    });
    const auto add = [&](std::int64_t count) {
      return workspace_.add(static_cast<std::size_t>(count) * sizeof(float));
    };
    a_at_ = add(rows_.size * inner_.size);
    b_at_ = add(inner_.size * columns_.size);
    y_at_ = add(rows_.size * columns_.size);
    ordered_at_ = workspace_.add(b_bytes);
    scratchpad_at_ = workspace_.add(scratchpad_bytes);
  }

  std::string implementation() const override {
    return "f32 for tiles of bf16: onednn " + calls_.begin()->second.write.implementation();
  }
  std::size_t workspace_bytes() const override { return workspace_.num_bytes(); }
  std::size_t library_bytes() const override {
    std::size_t sum = 0;
    for (const auto& [size, calls] : calls_) sum += calls.library_bytes();
    return sum;
  }

  void launch(const KernelArguments& arguments) override {
    Launch at = places(arguments);
    // The factor with more to widen is gone over once.
    const bool columns_outside = p_.columns > p_.rows;
    const Tiles &outer = columns_outside ? columns_ : rows_, &inner = columns_outside ? rows_ : columns_;
    for (std::int64_t i = 0; i < outer.dim; i += outer.size) {
      for (std::int64_t j = 0; j < inner.dim; j += inner.size) {
        compute_tile(at, columns_outside ? j : i, columns_outside ? i : j);
      }
    }
  }

 private:
  using Place = std::pair<std::int64_t, std::int64_t>;
  /// The places of a launch, and which tiles the workspace holds.
  struct Launch {
    const BFloat16 *a, *b;
    BFloat16* y;
    float *a_tile, *b_tile, *y_tile;
    void *ordered_b, *scratchpad;
    Place a_held{-1, -1}, b_held{-1, -1};
    const void* b_read = nullptr;
  };

  Launch places(const KernelArguments& arguments) const {
    const auto part = [&](std::size_t at) { return workspace_part(arguments.workspace, at); };
    return {.a = static_cast<const BFloat16*>(arguments.inputs[0]),
            .b = static_cast<const BFloat16*>(arguments.inputs[1]),
            .y = static_cast<BFloat16*>(arguments.outputs[0]),
            .a_tile = static_cast<float*>(part(a_at_)),
            .b_tile = static_cast<float*>(part(b_at_)),
            .y_tile = static_cast<float*>(part(y_at_)),
            .ordered_b = part(ordered_at_),
            .scratchpad = part(scratchpad_at_)};
  }

  /// body(rows, inner, columns) for every size of tiles.
  template <class Body>
  void for_each_size(const Body& body) const {
    const auto sizes = [](const Tiles& tiles) {
      return std::array<std::int64_t, 2>{tiles.size, tiles.rest() > 0 ? tiles.rest() : tiles.size};
    };
    for (const std::int64_t height : sizes(rows_)) {
      for (const std::int64_t length : sizes(inner_)) {
        for (const std::int64_t width : sizes(columns_)) body(height, length, width);
      }
    }
  }

  void compute_tile(Launch& at, std::int64_t row, std::int64_t column) {
    const std::int64_t height = rows_.length(row), width = columns_.length(column);
    for (std::int64_t k = 0; k < inner_.dim; k += inner_.size) {
      const std::int64_t length = inner_.length(k);
      BlockCalls& calls = calls_.at({height, length, width});
      if (at.a_held != Place(row, k)) {
        a_.widen(at.a, row, k, height, length, at.a_tile);
        at.a_held = {row, k};
      }
      // Tiles of other heights may want another order of b.
      if (at.b_held != Place(k, column) || height != rows_.size) {
        b_.widen(at.b, k, column, length, width, at.b_tile);
        at.b_read = calls.in_order(at.b_tile, at.ordered_b, at.scratchpad);
        at.b_held = height == rows_.size ? Place(k, column) : Place(-1, -1);
      }
      (k == 0 ? calls.write : calls.add).launch({at.a_tile, at.b_read, at.y_tile}, at.scratchpad);
    }
    convert_rows(at.y + row * p_.columns + column, p_.columns, at.y_tile, width, height, width);
  }

  MatmulProblem p_;
  Tiles rows_, inner_, columns_;
  Factor a_, b_;
  std::map<std::array<std::int64_t, 3>, BlockCalls> calls_;  // by rows, inner and columns of the tiles
  WorkspaceLayout workspace_;
  std::size_t a_at_ = 0, b_at_ = 0, y_at_ = 0, ordered_at_ = 0, scratchpad_at_ = 0;
};

}  // namespace

std::unique_ptr<Kernel> bf16_matmul_kernel(OneDnn& onednn, const MatmulProblem& problem, std::int64_t block,
                                           const Bf16Tiles& tiles) {
  return std::make_unique<Bf16Matmul>(onednn, problem, block, tiles);
}

}  // namespace sectionflow
