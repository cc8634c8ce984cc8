#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <type_traits>
#include <utility>

#include "device/parallel.h"
#include "kernels/cpu/lines_ahead.h"
#include "kernels/cpu/rows.h"
#include "kernels/formulas/scatter.h"
#include "kernels/function_kernel.h"
#include "kernels/stored_element.h"

namespace sectionflow {

/// A part of a table that one thread writes.
struct TablePiece {
  std::int64_t first_row, last_row;
  std::int64_t first_column, num_columns;
};

/// A table cut into pieces, in each of which rows are combined by index, in the order of the indices. So the bits
/// depend neither on the pieces nor on the number of threads.
class TablePieces {
 public:
  /// `piece_columns`: of a piece, at most; `least_pieces`: of the table, where it has so many rows.
  TablePieces(const GatherTable& table, std::int64_t num_indices, std::int64_t piece_columns,
              std::int64_t least_pieces = kPieces)
      : table(table),
        num_indices(num_indices),
        piece_columns_(piece_columns),
        column_pieces_((table.row_length + piece_columns - 1) / piece_columns) {
    // Few columns: the rows are cut too, as every piece costs a pass over the indices.
    row_pieces_ = std::clamp<std::int64_t>(least_pieces / std::max<std::int64_t>(1, column_pieces_), 1,
                                           std::max<std::int64_t>(1, table.num_rows));
  }

  /// One piece a thread, if the table can be cut into so many: stretches of rows that are as long as may be, since
  /// memory gives long ones faster. But of tables with few rows no more columns than a cache holds.
  static TablePieces for_team(const GatherTable& table, std::int64_t num_indices) {
    constexpr std::int64_t kLeast = 64, kLineFloats = kLineBytes / static_cast<std::int64_t>(sizeof(float));
    constexpr std::int64_t kCachedFloats = std::int64_t{1} << 18;  // half of a second-level cache
    const std::int64_t team = omp_get_max_threads();
    const std::int64_t share = (table.row_length + team - 1) / team;
    std::int64_t columns = std::max(kLeast, (share + kLineFloats - 1) / kLineFloats * kLineFloats);
    const std::int64_t cached = kCachedFloats / std::max<std::int64_t>(1, table.num_rows) / kLeast * kLeast;
    if (cached >= kLeast) columns = std::min(columns, cached);
    return {table, num_indices, columns, team};
  }

  /// Calls `body(piece)` for each piece, on the compute team.
  template <class Body>
  void for_each(const Body& body) const {
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

/// table = what it begins with, which may lie there already.
template <class T>
void begin_table(const GatherTable& table, T* y, const T* x) {
  if (x == y) return;
  parallel_for(table.num_rows * table.row_length, kParallelGrain, [=](std::int64_t begin, std::int64_t end) {
    if (x == nullptr) {
      std::fill(y + begin, y + end, T{});
    } else {
      std::copy(x + begin, x + end, y + begin);
    }
  });
}

/// Combines each row of `from.rows` with the one of y that its index names, where that lies: each piece goes through
/// all indices.
template <class Combine, class Index>
void combine_in_place(const TablePieces& pieces, float* y, const CombinedRows<float, Index>& from) {
  const std::int64_t length = pieces.table.row_length;
  pieces.for_each([=, count = pieces.num_indices](const TablePiece& piece) {
    const auto is_inside = [&](std::int64_t index) { return index >= piece.first_row && index < piece.last_row; };
    // Where the next rows lie, indices alone tell.
    const std::int64_t asked = std::min(piece.num_columns, kBytesAhead / static_cast<std::int64_t>(sizeof(float)));
    const std::int64_t ahead = kBytesAhead / static_cast<std::int64_t>(sizeof(float)) / asked;
    for (std::int64_t n = 0; n < count; ++n) {
      const std::int64_t later = n + ahead < count ? static_cast<std::int64_t>(from.indices[n + ahead]) : -1;
      if (is_inside(later)) {
        ask_for_lines(y + later * length + piece.first_column, asked);
        ask_for_lines(from.rows + (n + ahead) * length + piece.first_column, asked);
      }
      const auto index = static_cast<std::int64_t>(from.indices[n]);
      if (!is_inside(index)) continue;
      float* to = y + index * length + piece.first_column;
      const float* row = from.rows + n * length + piece.first_column;
#pragma omp simd
      for (std::int64_t c = 0; c < piece.num_columns; ++c) to[c] = Combine::combine(to[c], row[c]);
    }
  });
}

/// The same with the places of the indices sorted by row, so that a row is complete before the next one begins: rows of
/// bf16 are combined in f32 and rounded once, without a table of f32, and where rows of f32 are named again and again,
/// each stays in the cache meanwhile.
template <class T>
class SortedRows {
 public:
  SortedRows(const GatherTable& table, std::int64_t num_indices)
      : pieces_(table, num_indices, table.num_rows < kManyRows ? kColumns / 4 : kColumns) {
    ends_at_ = workspace_.add(static_cast<std::size_t>(table.num_rows) * sizeof(Place));
    places_at_ = workspace_.add(static_cast<std::size_t>(num_indices) * sizeof(Place));
  }
  /// Whether f32 is faster so, though sorting takes passes over the indices.
  static bool pays(const GatherTable& table, std::int64_t num_indices) { return num_indices >= 4 * table.num_rows; }
  /// Whether places fit the numbers that they are held in.
  static bool takes(std::int64_t num_indices) { return num_indices <= std::numeric_limits<Place>::max(); }

  std::size_t workspace_bytes() const { return workspace_.num_bytes(); }

  template <class Combine, class Index>
  void run(T* y, const CombinedRows<T, Index>& from, void* workspace) const {
    if (pieces_.table.num_rows == 0) return;
    Place* ends = static_cast<Place*>(workspace_part(workspace, ends_at_));
    Place* places = static_cast<Place*>(workspace_part(workspace, places_at_));
    sort(from.indices, ends, places);
    const std::int64_t length = pieces_.table.row_length;
    pieces_.for_each([=, num_rows = pieces_.table.num_rows](const TablePiece& piece) {
      const auto ahead = static_cast<Place>(4 * kBytesAhead / static_cast<std::int64_t>(sizeof(T)) / piece.num_columns);
      const Place last = ends[num_rows - 1];
      // Cut where as many indices lie before, since some rows may be named more often than others.
      const auto cut_at = [=](std::int64_t row) {
        return std::upper_bound(ends, ends + num_rows, last * row / num_rows) - ends;
      };
      const std::int64_t first_row = cut_at(piece.first_row), last_row = cut_at(piece.last_row);
      Place next = first_row == 0 ? 0 : ends[first_row - 1];
      for (std::int64_t row = first_row; row < last_row; ++row) {
        if (next == ends[row]) continue;
        T* to = y + row * length + piece.first_column;
        float combined[kColumns];
        convert_row(combined, to, piece.num_columns);
        for (; next < ends[row]; ++next) {
          if (ahead < last - next) {
            ask_for_lines<CacheLevel::second>(from.rows + places[next + ahead] * length + piece.first_column,
                                              piece.num_columns);
          }
          const T* further = from.rows + places[next] * length + piece.first_column;
#pragma omp simd
          for (std::int64_t c = 0; c < piece.num_columns; ++c) combined[c] = Combine::combine(combined[c], further[c]);
        }
        convert_row(to, combined, piece.num_columns);
      }
    });
  }

 private:
  using Place = std::int32_t;
  static constexpr std::int64_t kColumns = 2048 / sizeof(T);  // rows are read in stretches of so many bytes
  static constexpr std::int64_t kManyRows = 64;               // fewer are cut by columns, so that threads have as much

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

/// Rows combined in loops, see make_combined_rows. nullptr where bf16 is left to f32 between copies.
struct LoopRows {
  template <class Combine, class T, class Index, class From>
  static std::unique_ptr<Kernel> combined(const GatherTable& table, std::int64_t num_indices, const From& from,
                                          std::vector<InPlace> in_place) {
    const bool can_sort = SortedRows<T>::takes(num_indices);
    if constexpr (std::is_same_v<T, float>) {
      if (!can_sort || !SortedRows<T>::pays(table, num_indices)) {
        return function_kernel(
            [from, table, num_indices](const KernelArguments& arguments) {
              float* y = static_cast<float*>(arguments.outputs[0]);
              begin_table(table, y, from(arguments).x);
              combine_in_place<Combine>(TablePieces::for_team(table, num_indices), y, from(arguments));
            },
            {.in_place = std::move(in_place)});
      }
    }
    if (!can_sort) return nullptr;
    const SortedRows<T> rows(table, num_indices);
    return function_kernel(
        [from, table, rows](const KernelArguments& arguments) {
          T* y = static_cast<T*>(arguments.outputs[0]);
          begin_table(table, y, from(arguments).x);
          rows.template run<Combine>(y, from(arguments), arguments.workspace);
        },
        {.workspace_bytes = rows.workspace_bytes(), .in_place = std::move(in_place)});
  }
};

}  // namespace sectionflow
