#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <type_traits>
#include <utility>

#include "device/parallel.h"
#include "kernels/cpu/copies.h"
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
  TablePieces(const GatherTable& table, std::int64_t num_indices, std::int64_t piece_columns, std::int64_t least_pieces)
      : table(table),
        num_indices(num_indices),
        piece_columns_(piece_columns),
        column_pieces_((table.row_length + piece_columns - 1) / piece_columns) {
    // Few columns: the rows are cut too, as every piece costs a pass over the indices.
    row_pieces_ = std::clamp<std::int64_t>(least_pieces / std::max<std::int64_t>(1, column_pieces_), 1,
                                           std::max<std::int64_t>(1, table.num_rows));
  }

  /// Rows that are combined sooner than a thread finds out whether they are its own.
  static constexpr std::int64_t kShortRow = 16;

  /// One piece a thread, if the table can be cut into so many and its rows are not short: stretches of rows that are as
  /// long as may be, since memory gives long ones faster. But of tables with few rows no more columns than a cache
  /// holds.
  static TablePieces for_team(const GatherTable& table, std::int64_t num_indices) {
    constexpr std::int64_t kLeast = 64, kLineFloats = kLineBytes / static_cast<std::int64_t>(sizeof(float));
    constexpr std::int64_t kCachedFloats = std::int64_t{1} << 18;  // half of a second-level cache
    const std::int64_t team = table.row_length < kShortRow ? 1 : omp_get_max_threads();
    const std::int64_t share = (table.row_length + team - 1) / team;
    std::int64_t columns = std::max(kLeast, (share + kLineFloats - 1) / kLineFloats * kLineFloats);
    const std::int64_t cached = kCachedFloats / std::max<std::int64_t>(1, table.num_rows) / kLeast * kLeast;
    if (cached >= kLeast) columns = std::min(columns, cached);
    return {table, num_indices, columns, team};
  }
  /// Several a thread, of `piece_columns` at most.
  static TablePieces short_ones(const GatherTable& table, std::int64_t num_indices, std::int64_t piece_columns) {
    constexpr std::int64_t kPieces = 16;
    return {table, num_indices, piece_columns, std::max<std::int64_t>(kPieces, omp_get_max_threads())};
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

  std::int64_t piece_columns_, column_pieces_, row_pieces_ = 1;
};

template <class T>
std::size_t table_bytes(const GatherTable& table) {
  return static_cast<std::size_t>(table.num_rows * table.row_length) * sizeof(T);
}

/// table = what it begins with, which may lie there already; zeros if null.
template <class T>
void begin_table(const GatherTable& table, T* y, const T* x) {
  if (x == nullptr) {
    zero_bytes(y, table_bytes<T>(table));
  } else {
    copy_bytes(y, x, table_bytes<T>(table));
  }
}

/// to[c] = combine(to[c], row[c]), c in [0, width), and asks for as many elements of `later` on the way: the requests
/// of a whole row at once would keep waiting those loads that come next.
template <class Combine, CacheLevel kLevel, class T>
void combine_row(float* to, const T* row, std::int64_t width, const T* later) {
  const auto step = [=](std::int64_t first, auto count) {
    ask_for_lines<kLevel>(later + first, count);
    float* to_part = to + first;
    const T* part = row + first;
#pragma omp simd
    for (std::int64_t c = 0; c < count; ++c) to_part[c] = Combine::combine(to_part[c], stored<float>(part[c]));
  };
  in_steps(0, width, step);
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
/// bf16 are combined in f32 and rounded once, without a table of f32; where rows of f32 are named again and again, each
/// stays in the cache meanwhile; and large tables of what are else zeros are written once, past the caches.
template <class T>
class SortedRows {
 public:
  SortedRows(const GatherTable& table, std::int64_t num_indices) : table_(table), num_indices_(num_indices) {
    ends_at_ = workspace_.add(static_cast<std::size_t>(table.num_rows) * sizeof(Place));
    places_at_ = workspace_.add(static_cast<std::size_t>(num_indices) * sizeof(Place));
  }
  /// Whether f32 is faster so, though sorting takes passes over the indices, in which short rows are combined.
  static bool pays(const GatherTable& table, std::int64_t num_indices, bool begins_with_zeros) {
    const bool is_written_once = begins_with_zeros && PastCaches::pays(table_bytes<T>(table));
    return table.row_length >= TablePieces::kShortRow && (num_indices >= 4 * table.num_rows || is_written_once);
  }
  /// Whether places fit the numbers that they are held in.
  static bool takes(std::int64_t num_indices) { return num_indices <= std::numeric_limits<Place>::max(); }

  std::size_t workspace_bytes() const { return workspace_.num_bytes(); }

  template <class Combine, class Index>
  void run(T* y, const CombinedRows<T, Index>& from, void* workspace) const {
    if (table_.num_rows == 0) return;
    Place* ends = static_cast<Place*>(workspace_part(workspace, ends_at_));
    Place* places = static_cast<Place*>(workspace_part(workspace, places_at_));
    sort(from.indices, ends, places);
    const std::int64_t columns = table_.num_rows < kManyRows ? kColumns / 4 : kColumns;
    const TablePieces pieces = TablePieces::short_ones(table_, num_indices_, columns);
    const auto of_pieces = [&](auto is_written_once) {
      pieces.for_each(
          [=, this](const TablePiece& piece) { run_piece<Combine, is_written_once()>(piece, y, from, ends, places); });
    };
    if (from.x == nullptr && PastCaches::pays(table_bytes<T>(table_))) {
      of_pieces(std::true_type());
    } else {
      begin_table(table_, y, from.x);
      of_pieces(std::false_type());
    }
  }

 private:
  using Place = std::int32_t;
  static constexpr std::int64_t kColumns = 2048 / sizeof(T);  // rows are read in stretches of so many bytes
  static constexpr std::int64_t kManyRows = 64;               // fewer are cut by columns, so that threads have as much

  /// What is not written once goes on from what lies there.
  template <class Combine, bool kWrittenOnce, class Index>
  void run_piece(const TablePiece& piece, T* y, const CombinedRows<T, Index>& from, const Place* ends,
                 const Place* places) const {
    const std::int64_t length = table_.row_length, num_rows = table_.num_rows, width = piece.num_columns;
    const std::size_t num_bytes = static_cast<std::size_t>(width) * sizeof(T);
    const auto ahead = static_cast<Place>(4 * kBytesAhead / static_cast<std::int64_t>(sizeof(T)) / width);
    const Place last = ends[num_rows - 1];
    // Cut where as much work lies before, since some rows may be named more often than others.
    const auto work_to = [=](const Place& end) { return end + (kWrittenOnce ? &end - ends + 1 : 0); };
    const auto cut_at = [=](std::int64_t row) {
      const std::int64_t work = work_to(ends[num_rows - 1]) * row / num_rows;
      const auto is_more = [=](std::int64_t most, const Place& end) { return most < work_to(end); };
      return std::upper_bound(ends, ends + num_rows, work, is_more) - ends;
    };
    const std::int64_t first_row = cut_at(piece.first_row), last_row = cut_at(piece.last_row);
    const PastCaches past;
    Place next = first_row == 0 ? 0 : ends[first_row - 1];
    for (std::int64_t row = first_row; row < last_row; ++row) {
      T* to = y + row * length + piece.first_column;
      if (next == ends[row]) {
        if (kWrittenOnce) past.zeros(to, num_bytes);
        continue;
      }
      float combined[kColumns];
      if (kWrittenOnce) {
        std::fill_n(combined, width, 0.0F);
      } else {
        convert_row(combined, to, width);
      }
      for (; next < ends[row]; ++next) {
        const T* column = from.rows + piece.first_column;
        // Behind the last there is none: what is in the cache already takes no time to ask for.
        const Place later = ahead < last - next ? next + ahead : next;
        combine_row<Combine, CacheLevel::second>(combined, column + places[next] * length, width,
                                                 column + places[later] * length);
      }
      if (kWrittenOnce) {
        T stored_row[kColumns];
        convert_row(stored_row, combined, width);
        past.copy(to, stored_row, num_bytes);
      } else {
        convert_row(to, combined, width);
      }
    }
  }

  /// places = where each row's indices are, in their order, row after row; ends[row] = behind the row's last.
  template <class Index>
  void sort(const Index* indices, Place* ends, Place* places) const {
    const std::int64_t num_rows = table_.num_rows;
    const auto for_each_index = [&](const auto& visit) {
      for (std::int64_t n = 0; n < num_indices_; ++n) {
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

  GatherTable table_;
  std::int64_t num_indices_;
  WorkspaceLayout workspace_;
  std::size_t ends_at_ = 0, places_at_ = 0;
};

/// Rows combined in loops, see make_combined_rows; what takes the place of no input begins with zeros. nullptr where
/// bf16 is left to f32 between copies.
struct LoopRows {
  template <class Combine, class T, class Index, class From>
  static std::unique_ptr<Kernel> combined(const GatherTable& table, std::int64_t num_indices, const From& from,
                                          std::vector<InPlace> in_place) {
    const bool can_sort = SortedRows<T>::takes(num_indices);
    if constexpr (std::is_same_v<T, float>) {
      if (!can_sort || !SortedRows<T>::pays(table, num_indices, in_place.empty())) {
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
        [from, rows](const KernelArguments& arguments) {
          rows.template run<Combine>(static_cast<T*>(arguments.outputs[0]), from(arguments), arguments.workspace);
        },
        {.workspace_bytes = rows.workspace_bytes(), .in_place = std::move(in_place)});
  }
};

}  // namespace sectionflow
