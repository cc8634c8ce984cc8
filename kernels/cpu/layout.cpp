#include "graph/ops/layout.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "device/parallel.h"
#include "kernels/cpu/broadcast_loop.h"
#include "kernels/cpu/copies.h"
#include "kernels/function_kernel.h"
#include "kernels/kernel_registry.h"
#include "kernels/transposition.h"

namespace sectionflow {
namespace {

std::unique_ptr<Kernel> make_copy(const KernelRequest& request) {
  return copy_kernel(request.outputs[0].bytes());
}

using Axis = TransposedAxis;

// A line of memory holds 16 floats: a tile reads and writes whole lines.
constexpr std::int64_t kTile = 16;

/// block[c][r] = x[r][c] of a whole tile.
template <class T>
void transpose_block(T (&block)[kTile][kTile], const T* x, std::int64_t x_step) {
  for (std::int64_t r = 0; r < kTile; ++r) {
    for (std::int64_t c = 0; c < kTile; ++c) block[c][r] = x[r * x_step + c];
  }
}

void transpose_block(std::uint32_t (&block)[kTile][kTile], const std::uint32_t* x, std::int64_t x_step) {
  typedef std::uint32_t Four __attribute__((vector_size(16)));
  for (std::int64_t r = 0; r < kTile; r += 4) {
    for (std::int64_t c = 0; c < kTile; c += 4) {
      Four rows[4];
      for (std::int64_t i = 0; i < 4; ++i) std::memcpy(&rows[i], x + (r + i) * x_step + c, sizeof(Four));
      const Four low01 = __builtin_shufflevector(rows[0], rows[1], 0, 4, 1, 5);
      const Four low23 = __builtin_shufflevector(rows[2], rows[3], 0, 4, 1, 5);
      const Four high01 = __builtin_shufflevector(rows[0], rows[1], 2, 6, 3, 7);
      const Four high23 = __builtin_shufflevector(rows[2], rows[3], 2, 6, 3, 7);
      const Four columns[4] = {
          __builtin_shufflevector(low01, low23, 0, 1, 4, 5), __builtin_shufflevector(low01, low23, 2, 3, 6, 7),
          __builtin_shufflevector(high01, high23, 0, 1, 4, 5), __builtin_shufflevector(high01, high23, 2, 3, 6, 7)};
      for (std::int64_t i = 0; i < 4; ++i) std::memcpy(&block[c + i][r], &columns[i], sizeof(Four));
    }
  }
}

/// y[c][r] = x[r][c]. Through a block of its own: rows of y may lie a large power of two apart and then push each other
/// out of the cache before their lines are full.
template <class T>
void transpose_tile(T* y, std::int64_t y_step, const T* x, std::int64_t x_step, std::int64_t num_rows,
                    std::int64_t num_columns) {
  alignas(64) T block[kTile][kTile];
  if (num_rows == kTile && num_columns == kTile) {
    transpose_block(block, x, x_step);
    for (std::int64_t c = 0; c < kTile; ++c) std::memcpy(y + c * y_step, block[c], sizeof block[c]);
    return;
  }
  for (std::int64_t r = 0; r < num_rows; ++r) {
    for (std::int64_t c = 0; c < num_columns; ++c) block[c][r] = x[r * x_step + c];
  }
  for (std::int64_t c = 0; c < num_columns; ++c) {
    std::copy(block[c], block[c] + num_rows, y + c * y_step);
  }
}

std::int64_t rounded_up(std::int64_t count) {
  return (count + kTile - 1) / kTile * kTile;
}

/// Planes in which x runs along `columns` and y along `rows`, cut into panels that threads share.
class TransposePlan {
 public:
  /// The last of `axes` is not the one along which x runs.
  explicit TransposePlan(const std::vector<Axis>& axes) : rows_(axes.back()) {
    for (std::size_t i = 0; i + 1 < axes.size(); ++i) {
      if (axes[i].x_step == 1) {
        columns_ = axes[i];
      } else {
        outer_[rank_++] = axes[i];
        num_planes_ *= axes[i].dim;
      }
    }
    // Long runs in x first; what is too little along one axis is taken along the other.
    panel_columns_ = std::min<std::int64_t>(rounded_up(columns_.dim), 256);
    panel_rows_ = std::min(rounded_up(rows_.dim), rounded_up(kPanelElements / panel_columns_));
    panel_columns_ =
        std::min(rounded_up(columns_.dim), std::max(panel_columns_, rounded_up(kPanelElements / panel_rows_)));
    column_panels_ = (columns_.dim + panel_columns_ - 1) / panel_columns_;
    row_panels_ = (rows_.dim + panel_rows_ - 1) / panel_rows_;
  }

  template <class T>
  void run(T* y, const T* x) const {
    const std::int64_t grain =
        std::max<std::int64_t>(1, kParallelGrain / std::min(panel_columns_ * panel_rows_, columns_.dim * rows_.dim));
    parallel_for(num_planes_ * row_panels_ * column_panels_, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t panel = begin; panel < end; ++panel) run_panel(panel, y, x);
    });
  }

 private:
  template <class T>
  void run_panel(std::int64_t panel, T* y, const T* x) const {
    const std::int64_t first_column = panel % column_panels_ * panel_columns_;
    panel /= column_panels_;
    const std::int64_t first_row = panel % row_panels_ * panel_rows_;
    std::int64_t plane = panel / row_panels_;
    for (int i = rank_ - 1; i >= 0; --i) {
      x += plane % outer_[i].dim * outer_[i].x_step;
      y += plane % outer_[i].dim * outer_[i].y_step;
      plane /= outer_[i].dim;
    }
    const std::int64_t last_row = std::min(rows_.dim, first_row + panel_rows_);
    const std::int64_t last_column = std::min(columns_.dim, first_column + panel_columns_);
    for (std::int64_t r = first_row; r < last_row; r += kTile) {
      for (std::int64_t c = first_column; c < last_column; c += kTile) {
        transpose_tile(y + c * columns_.y_step + r, columns_.y_step, x + r * rows_.x_step + c, rows_.x_step,
                       std::min(kTile, last_row - r), std::min(kTile, last_column - c));
      }
    }
  }

  static constexpr std::int64_t kPanelElements = 8192;

  Axis rows_;       // y runs along them
  Axis columns_{};  // x runs along them
  std::array<Axis, Shape::kMaxRank> outer_{};
  int rank_ = 0;
  std::int64_t num_planes_ = 1;
  std::int64_t panel_rows_ = 1, panel_columns_ = 1;
  std::int64_t row_panels_ = 1, column_panels_ = 1;
};

std::unique_ptr<Kernel> make_transpose(const KernelRequest& request) {
  if (request.inputs[0].shape.num_elements() == 0) return function_kernel([](const KernelArguments&) {});
  const Transposition moved = transposition(request);
  if (moved.axes.empty()) return strided_copy_kernel(moved.copy);
  return with_element_of(moved.element_bytes, [&](auto element) -> std::unique_ptr<Kernel> {
    using T = decltype(element);
    return function_kernel([plan = TransposePlan(moved.axes)](const KernelArguments& arguments) {
      plan.run(static_cast<T*>(arguments.outputs[0]), static_cast<const T*>(arguments.inputs[0]));
    });
  });
}

std::unique_ptr<Kernel> make_broadcast_to(const KernelRequest& request) {
  const TensorType& x = request.inputs[0];
  const Shape& y = request.outputs[0].shape;
  return strided_copy_kernel({.element_bytes = dtype_bytes(x.dtype),
                              .y = y,
                              .strides = broadcast_strides(x.shape, y),
                              .num_x_elements = x.shape.num_elements()});
}

}  // namespace

void add_layout_cpu_kernels(KernelRegistry& registry) {
  registry.add("reshape", make_copy, Bf16::native);
  registry.add("flatten", make_copy, Bf16::native);
  registry.add("reshape_like", make_copy, Bf16::native);
  registry.add("same_size", make_copy, Bf16::native);
  registry.add("transpose", make_transpose, Bf16::native);
  registry.add("broadcast_to", make_broadcast_to, Bf16::native);
  registry.add("broadcast_like", make_broadcast_to, Bf16::native);
}

}  // namespace sectionflow
