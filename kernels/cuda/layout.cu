#include <algorithm>
#include <cstdint>

#include "base/error.h"
#include "graph/ops/layout.h"
#include "kernels/cuda/broadcast.h"
#include "kernels/cuda/copies.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/positions.h"
#include "kernels/function_kernel.h"
#include "kernels/transposition.h"

namespace sectionflow {
namespace {

std::unique_ptr<Kernel> make_copy(const KernelRequest& request) {
  return gpu::copy_kernel(request.outputs[0].bytes());
}

using gpu::Divisor;

constexpr std::int64_t kMostBlocks = std::int64_t{1} << 20;
constexpr int kThreads = 256;

/// Planes in which x runs along columns and y along rows, in square tiles: a block reads rows of a tile and writes its
/// columns, so that neighbouring threads both read and write side by side.
struct TransposePlan {
  std::int64_t rows, columns, row_step, column_step;  // row_step in x, column_step in y
  std::int64_t num_tiles;
  Divisor row_tiles, column_tiles;
  int rank = 0;
  Divisor outer_dims[Shape::kMaxRank];
  std::int64_t outer_x_steps[Shape::kMaxRank], outer_y_steps[Shape::kMaxRank];

  int tile;  // its rows and columns

  /// The last of `axes` is not the one along which x runs.
  TransposePlan(const std::vector<TransposedAxis>& axes, std::size_t element_bytes)
      : rows(axes.back().dim), columns(1), row_step(axes.back().x_step), column_step(1) {
    num_tiles = 1;
    for (std::size_t i = 0; i + 1 < axes.size(); ++i) {
      if (axes[i].x_step == 1) {
        columns = axes[i].dim;
        column_step = axes[i].y_step;
      } else {
        outer_dims[rank] = Divisor(axes[i].dim);
        outer_x_steps[rank] = axes[i].x_step;
        outer_y_steps[rank++] = axes[i].y_step;
        num_tiles *= axes[i].dim;
      }
    }
    tile = element_bytes <= 4 && std::min(rows, columns) >= 64 ? 64 : 32;
    row_tiles = Divisor(gpu::blocks_for(rows, tile));
    column_tiles = Divisor(gpu::blocks_for(columns, tile));
    num_tiles *= row_tiles.divisor() * column_tiles.divisor();
  }
};

template <class T, int kTile>
struct TransposeBlocks {
  static constexpr int kDown = kThreads / kTile, kEach = kTile / kDown;  // rows at once; elements of a thread
  // Neighbours of a column lie in different banks.
  static constexpr int kPitch = kTile + (sizeof(T) < 4 ? 4 / static_cast<int>(sizeof(T)) : 1);
  TransposePlan plan;
  const T* x;
  T* y;

  gpu::LaunchShape launch_shape() const {
    return {.blocks = std::min(plan.num_tiles, kMostBlocks),
            .threads = kThreads,
            .shared_bytes = kTile * kPitch * sizeof(T)};
  }

  template <class Thread>
  SF_HOST_DEVICE void operator()(Thread& thread) const {
    auto tile = thread.template shared<T>(0, kTile * kPitch);
    const int across = thread.index() % kTile, down = thread.index() / kTile;
    for (std::int64_t number = thread.block(); number < plan.num_tiles; number += thread.num_blocks()) {
      std::int64_t plane = number;
      const std::int64_t column = plan.column_tiles.cut(plane) * kTile, row = plan.row_tiles.cut(plane) * kTile;
      std::int64_t from = row * plan.row_step + column, to = column * plan.column_step + row;
      for (int i = plan.rank - 1; i >= 0; --i) {
        const std::int64_t at = plan.outer_dims[i].cut(plane);
        from += at * plan.outer_x_steps[i];
        to += at * plan.outer_y_steps[i];
      }
      const std::int64_t rows = plan.rows - row, columns = plan.columns - column;
      read(tile, x + from, rows, columns, across, down);
      thread.barrier();
      for (int each = 0; each < kEach; ++each) {
        const int c = down + each * kDown;
        if (across >= rows || c >= columns) continue;
        const T element = tile[across * kPitch + c];
        y[to + c * plan.column_step + across] = element;
      }
      thread.barrier();  // the next tile lies in the same place
    }
  }

 private:
  /// The tile from `first` on, of which `rows` and `columns` are left.
  template <class Tile>
  SF_HOST_DEVICE void read(Tile& tile, const T* first, std::int64_t rows, std::int64_t columns, int across,
                           int down) const {
    if (rows < kTile || columns < kTile) {
      for (int r = down; r < kTile && r < rows; r += kDown) {
        if (across < columns) tile[r * kPitch + across] = first[r * plan.row_step + across];
      }
      return;
    }
    T elements[kEach];  // all are on the way before the first is needed
    for (int each = 0; each < kEach; ++each) elements[each] = first[(down + each * kDown) * plan.row_step + across];
    for (int each = 0; each < kEach; ++each) tile[(down + each * kDown) * kPitch + across] = elements[each];
  }
};

template <class T, int kTile>
std::unique_ptr<Kernel> transpose_kernel(const TransposePlan& plan) {
  return function_kernel([plan](const KernelArguments& arguments) {
    const TransposeBlocks<T, kTile> body{plan, static_cast<const T*>(arguments.inputs[0]),
                                         static_cast<T*>(arguments.outputs[0])};
    gpu::launch_blocks(arguments.queue, body.launch_shape(), body);
  });
}

std::unique_ptr<Kernel> make_transpose(const KernelRequest& request) {
  if (request.inputs[0].shape.num_elements() == 0) return function_kernel([](const KernelArguments&) {});
  const Transposition moved = transposition(request);
  if (moved.axes.empty()) return gpu::strided_copy_kernel(moved.copy);
  const TransposePlan plan(moved.axes, moved.element_bytes);
  // A few rows or columns leave tiles empty; their lines stay in cache until all of them is used.
  if (std::min(plan.rows, plan.columns) < 8) return gpu::strided_copy_kernel(moved.copy);
  return with_element_of(moved.element_bytes, [&](auto element) {
    using T = decltype(element);
    if constexpr (sizeof(T) <= 4) {
      if (plan.tile == 64) return transpose_kernel<T, 64>(plan);
    }
    return transpose_kernel<T, 32>(plan);
  });
}

struct Same {
  template <class T>
  SF_HOST_DEVICE T operator()(T x) const {
    return x;
  }
};

/// Elements are moved without being looked at: T is any type of their size.
template <class T>
std::unique_ptr<Kernel> make_repetition(const KernelRequest& request) {
  const Shape& y = request.outputs[0].shape;
  const gpu::Broadcast<T, T> repetition(y, {broadcast_strides(request.inputs[0].shape, y)});
  return function_kernel([repetition](const KernelArguments& arguments) {
    repetition.launch(arguments.queue, Same(), arguments.outputs[0], {arguments.inputs[0]});
  });
}

std::unique_ptr<Kernel> make_broadcast_to(const KernelRequest& request) {
  const TensorType& x = request.inputs[0];
  if (x.shape.num_elements() == request.outputs[0].shape.num_elements()) {
    return gpu::copy_kernel(request.outputs[0].bytes());
  }
  switch (dtype_bytes(x.dtype)) {
    case 1:
      return make_repetition<std::uint8_t>(request);
    case 2:
      return make_repetition<std::uint16_t>(request);
    case 4:
      return make_repetition<std::uint32_t>(request);
    case 8:
      return make_repetition<std::uint64_t>(request);
    default:
      throw InternalError(text_of(request.node.label(), ": no element has ", dtype_bytes(x.dtype), " bytes"));
  }
}

}  // namespace

void add_layout_cuda_kernels(KernelRegistry& registry) {
  registry.add("reshape", make_copy, Bf16::native);
  registry.add("flatten", make_copy, Bf16::native);
  registry.add("reshape_like", make_copy, Bf16::native);
  registry.add("same_size", make_copy, Bf16::native);
  registry.add("transpose", make_transpose, Bf16::native);
  registry.add("broadcast_to", make_broadcast_to, Bf16::native);
  registry.add("broadcast_like", make_broadcast_to, Bf16::native);
}

}  // namespace sectionflow
