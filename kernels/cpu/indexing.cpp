#include "graph/ops/indexing.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>

#include "device/parallel.h"
#include "graph/nodes/indexing.h"
#include "kernels/cpu/rows.h"
#include "kernels/formulas/indexing.h"
#include "kernels/function_kernel.h"
#include "kernels/gather_family.h"
#include "kernels/kernel_registry.h"
#include "kernels/stored_element.h"

namespace sectionflow {
namespace {

/// A part of a table that one thread writes.
struct TablePiece {
  std::int64_t first_row, last_row;
  std::int64_t first_column, num_columns;
};

/// A table cut into pieces, in each of which rows are added up by index, in the order of the indices. So the bits do
/// not depend on the number of threads.
class TablePieces {
 public:
  /// `piece_columns`: of a piece, at most.
  TablePieces(const GatherTable& table, std::int64_t num_indices, std::int64_t piece_columns)
      : table(table),
        num_indices(num_indices),
        piece_columns_(piece_columns),
        column_pieces_((table.row_length + piece_columns - 1) / piece_columns) {
    // Few columns: the rows are cut too, as every piece costs a pass over the indices.
    row_pieces_ = std::clamp<std::int64_t>(kPieces / std::max<std::int64_t>(1, column_pieces_), 1,
                                           std::max<std::int64_t>(1, table.num_rows));
  }

  /// Fills the table with zeros, then calls `body(piece)` for each piece, on the compute team.
  template <class T, class Body>
  void for_each(T* dtable, const Body& body) const {
    parallel_for(table.num_rows * table.row_length, kParallelGrain,
                 [=](std::int64_t begin, std::int64_t end) { std::fill(dtable + begin, dtable + end, T{}); });
    const std::int64_t num_pieces = column_pieces_ * row_pieces_;
    const std::int64_t work = num_indices * table.row_length / std::max<std::int64_t>(1, num_pieces) + num_indices;
    parallel_for(num_pieces, std::max<std::int64_t>(1, kParallelGrain / std::max<std::int64_t>(1, work)),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t number = begin; number < end; ++number) body(piece(number));
                 });
  }

  GatherTable table;
  std::int64_t num_indices;

 private:
  TablePiece piece(std::int64_t number) const {
    const std::int64_t row = number % row_pieces_, column = number / row_pieces_ * piece_columns_;
    return {table.num_rows * row / row_pieces_, table.num_rows * (row + 1) / row_pieces_, column,
            std::min(piece_columns_, table.row_length - column)};
  }

  static constexpr std::int64_t kPieces = 16;
  std::int64_t piece_columns_, column_pieces_, row_pieces_ = 1;
};

/// dtable = the sums of dy's rows by index, added where they lie: each piece goes through all indices.
template <class Index>
void add_rows(const TablePieces& pieces, float* dtable, const float* dy, const Index* indices) {
  const std::int64_t length = pieces.table.row_length;
  pieces.for_each(dtable, [=, count = pieces.num_indices](const TablePiece& piece) {
    for (std::int64_t n = 0; n < count; ++n) {
      const auto index = static_cast<std::int64_t>(indices[n]);
      if (index < piece.first_row || index >= piece.last_row) continue;
      float* to = dtable + index * length + piece.first_column;
      const float* from = dy + n * length + piece.first_column;
#pragma omp simd
      for (std::int64_t c = 0; c < piece.num_columns; ++c) to[c] += from[c];
    }
  });
}

/// The same for bf16, whose sums are f32 and are rounded once. The places of the indices are sorted by row, so that a
/// row's sum is complete before the next one begins, and no table of f32 is needed.
class SortedRowSums {
 public:
  SortedRowSums(const GatherTable& table, std::int64_t num_indices) : pieces_(table, num_indices, kColumns) {
    ends_at_ = workspace_.add(static_cast<std::size_t>(table.num_rows) * sizeof(Place));
    places_at_ = workspace_.add(static_cast<std::size_t>(num_indices) * sizeof(Place));
  }
  /// Whether places fit the numbers that they are held in.
  static bool takes(std::int64_t num_indices) { return num_indices <= std::numeric_limits<Place>::max(); }

  std::size_t workspace_bytes() const { return workspace_.num_bytes(); }

  template <class Index>
  void run(BFloat16* dtable, const BFloat16* dy, const Index* indices, void* workspace) const {
    Place* ends = static_cast<Place*>(workspace_part(workspace, ends_at_));
    Place* places = static_cast<Place*>(workspace_part(workspace, places_at_));
    sort(indices, ends, places);
    const std::int64_t length = pieces_.table.row_length;
    pieces_.for_each(dtable, [=](const TablePiece& piece) {
      Place next = piece.first_row == 0 ? 0 : ends[piece.first_row - 1];
      for (std::int64_t row = piece.first_row; row < piece.last_row; ++row) {
        if (next == ends[row]) continue;
        float sums[kColumns];
        std::fill_n(sums, piece.num_columns, 0.0F);
        for (; next < ends[row]; ++next) {
          const BFloat16* from = dy + places[next] * length + piece.first_column;
#pragma omp simd
          for (std::int64_t c = 0; c < piece.num_columns; ++c) sums[c] += from[c];
        }
        convert_row(dtable + row * length + piece.first_column, sums, piece.num_columns);
      }
    });
  }

 private:
  using Place = std::int32_t;
  static constexpr std::int64_t kColumns = 256;  // a row of dy is read in stretches of 512 bytes

  /// places = where each row's indices are, in their order, row after row; ends[row] = behind the row's last.
  template <class Index>
  void sort(const Index* indices, Place* ends, Place* places) const {
    const std::int64_t num_rows = pieces_.table.num_rows;
    const auto for_each_index = [&](const auto& visit) {
      for (std::int64_t n = 0; n < pieces_.num_indices; ++n) {
        const auto row = static_cast<std::int64_t>(indices[n]);
        if (row >= 0 && row < num_rows) visit(row, static_cast<Place>(n));
      }
    };
    std::fill_n(ends, num_rows, Place{0});
    for_each_index([=](std::int64_t row, Place) { ++ends[row]; });
    Place begin = 0;
    for (std::int64_t row = 0; row < num_rows; ++row) begin += std::exchange(ends[row], begin);
    for_each_index([=](std::int64_t row, Place n) { places[ends[row]++] = n; });
  }

  TablePieces pieces_;
  WorkspaceLayout workspace_;
  std::size_t ends_at_ = 0, places_at_ = 0;
};

/// The kernels as loops over indices.
struct LoopGathers {
  template <class T, class Index>
  static std::unique_ptr<Kernel> gather(const KernelRequest& request) {
    const GatherTable table(request.inputs[0].shape);
    const std::int64_t count = request.inputs[1].shape.num_elements();
    return function_kernel([=](const KernelArguments& arguments) {
      const T* rows = static_cast<const T*>(arguments.inputs[0]);             // [V, C]
      const Index* indices = static_cast<const Index*>(arguments.inputs[1]);  // [N]
      T* y = static_cast<T*>(arguments.outputs[0]);                           // [N, C]
      const std::int64_t length = table.row_length;
      parallel_for(count, std::max<std::int64_t>(1, kParallelGrain / std::max<std::int64_t>(1, length)),
                   [=](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t n = begin; n < end; ++n) {
                       const auto index = static_cast<std::int64_t>(indices[n]);
                       T* to = y + n * length;
                       if (index >= 0 && index < table.num_rows) {
                         std::copy_n(rows + index * length, length, to);
                       } else {
                         std::fill_n(to, length, formulas::missing_element<T>());
                       }
                     }
                   });
    });
  }

  template <class Index>
  static std::unique_ptr<Kernel> gather_grad(const KernelRequest& request) {
    const GatherTable table(request.outputs[0].shape);
    const std::int64_t num_indices = request.inputs[1].shape.num_elements();
    return with_stored_type(request.outputs[0].dtype,
                            [&](auto element) { return row_sums<Index>(table, num_indices, element); });
  }

 private:
  template <class Index>
  static std::unique_ptr<Kernel> row_sums(const GatherTable& table, std::int64_t num_indices, float) {
    constexpr std::int64_t kColumns = 64;
    return function_kernel([pieces = TablePieces(table, num_indices, kColumns)](const KernelArguments& arguments) {
      add_rows(pieces, static_cast<float*>(arguments.outputs[0]), static_cast<const float*>(arguments.inputs[0]),
               static_cast<const Index*>(arguments.inputs[1]));
    });
  }
  template <class Index>
  static std::unique_ptr<Kernel> row_sums(const GatherTable& table, std::int64_t num_indices, BFloat16) {
    if (!SortedRowSums::takes(num_indices)) return nullptr;
    const SortedRowSums sums(table, num_indices);
    return function_kernel(
        [sums](const KernelArguments& arguments) {
          sums.run(static_cast<BFloat16*>(arguments.outputs[0]), static_cast<const BFloat16*>(arguments.inputs[0]),
                   static_cast<const Index*>(arguments.inputs[1]), arguments.workspace);
        },
        {.workspace_bytes = sums.workspace_bytes()});
  }
};

template <class Index>
std::unique_ptr<Kernel> make_one_hot_of(const KernelRequest& request) {
  const std::int64_t count = request.inputs[0].shape.num_elements();
  return function_kernel([count, options = request.node.options<OneHotOptions>()](const KernelArguments& arguments) {
    const Index* indices = static_cast<const Index*>(arguments.inputs[0]);  // [N]
    float* y = static_cast<float*>(arguments.outputs[0]);                   // [N, depth]
    const std::int64_t depth = options.depth;
    parallel_for(count, std::max<std::int64_t>(1, kParallelGrain / depth), [=](std::int64_t begin, std::int64_t end) {
      std::fill(y + begin * depth, y + end * depth, options.off_value);
      for (std::int64_t n = begin; n < end; ++n) {
        const auto index = static_cast<std::int64_t>(indices[n]);
        if (index >= 0 && index < depth) y[n * depth + index] = options.on_value;
      }
    });
  });
}

std::unique_ptr<Kernel> make_one_hot(const KernelRequest& request) {
  return request.inputs[0].dtype == Dtype::i32 ? make_one_hot_of<std::int32_t>(request)
                                               : make_one_hot_of<std::int64_t>(request);
}

template <class T>
std::int32_t argmax_of_row(const T* x, std::int64_t num_classes) {
  std::int64_t best = 0;
  for (std::int64_t c = 1; c < num_classes && !std::isnan(static_cast<float>(x[best])); ++c) {
    // "Not <=" holds for a NaN too; from then on nothing is larger.
    if (!(x[c] <= x[best])) best = c;
  }
  return static_cast<std::int32_t>(best);
}

/// x is stored as T.
template <class T>
std::unique_ptr<Kernel> make_argmax_of(const KernelRequest& request) {
  const std::int64_t num_rows = request.outputs[0].shape.num_elements();
  const std::int64_t num_classes = request.inputs[0].shape[-1];
  return function_kernel([=](const KernelArguments& arguments) {
    const T* x = static_cast<const T*>(arguments.inputs[0]);             // [N, C]
    std::int32_t* y = static_cast<std::int32_t*>(arguments.outputs[0]);  // [N]
    const std::int64_t grain = std::max<std::int64_t>(1, kParallelGrain / num_classes);
    parallel_for(num_rows, grain, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t n = begin; n < end; ++n) y[n] = argmax_of_row(x + n * num_classes, num_classes);
    });
  });
}

std::unique_ptr<Kernel> make_argmax(const KernelRequest& request) {
  return with_stored_type(request.inputs[0].dtype,
                          [&](auto element) { return make_argmax_of<decltype(element)>(request); });
}

}  // namespace

void add_indexing_cpu_kernels(KernelRegistry& registry) {
  GatherFamily<LoopGathers>::add_to(registry);
  registry.add("one_hot", make_one_hot);
  registry.add("argmax", make_argmax, Bf16::native);
}

}  // namespace sectionflow
