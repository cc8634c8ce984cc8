#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "device/parallel.h"
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

/// A table cut into pieces, in each of which rows are combined by index, in the order of the indices. So the bits do
/// not depend on the number of threads.
class TablePieces {
 public:
  /// `piece_columns`: of a piece, at most.
  TablePieces(const GatherTable& table, std::int64_t num_indices, std::int64_t piece_columns)
      : table(table),
        num_indices(num_indices),
        piece_columns_(piece_columns),
        column_pieces_((table.row_length + piece_columns - 1) / piece_columns) {
    // Few columns: the rows are cut too.
    row_pieces_ = std::clamp<std::int64_t>(kPieces / std::max<std::int64_t>(1, column_pieces_), 1,
                                           std::max<std::int64_t>(1, table.num_rows));
  }

  /// Calls `body(piece)` for each piece, on the compute team.
  template <class Body>
  void for_each(const Body& body) const {
    const std::int64_t num_pieces = column_pieces_ * row_pieces_;
    const std::int64_t work = (num_indices + table.num_rows) * table.row_length / std::max<std::int64_t>(1, num_pieces);
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

/// Rows combined in f32 and rounded once. The places of the indices are sorted by row, so that a row is complete, and
/// goes to memory, before the next one begins.
class SortedRows {
 public:
  SortedRows(const GatherTable& table, std::int64_t num_indices) : pieces_(table, num_indices, kColumns) {
    ends_at_ = workspace_.add(static_cast<std::size_t>(table.num_rows) * sizeof(Place));
    places_at_ = workspace_.add(static_cast<std::size_t>(num_indices) * sizeof(Place));
  }

  std::size_t workspace_bytes() const { return workspace_.num_bytes(); }

  /// y begins with from.x, which may lie there already, or with zeros.
  template <class Combine, class T, class Index>
  void run(T* y, const CombinedRows<T, Index>& from, void* workspace) const {
    Place* ends = static_cast<Place*>(workspace_part(workspace, ends_at_));
    Place* places = static_cast<Place*>(workspace_part(workspace, places_at_));
    sort(from.indices, ends, places);
    const std::int64_t length = pieces_.table.row_length;
    pieces_.for_each([=](const TablePiece& piece) {
      Place next = piece.first_row == 0 ? 0 : ends[piece.first_row - 1];
      for (std::int64_t row = piece.first_row; row < piece.last_row; ++row) {
        const std::int64_t at = row * length + piece.first_column, count = piece.num_columns;
        if (next == ends[row]) {
          if (from.x == nullptr) std::fill_n(y + at, count, T{});
          if (from.x != nullptr && from.x != y) std::copy_n(from.x + at, count, y + at);
          continue;
        }
        float combined[kColumns] = {};
        if (from.x != nullptr) convert_row(combined, from.x + at, count);
        for (; next < ends[row]; ++next) {
          const T* further = from.rows + places[next] * length + piece.first_column;
#pragma omp simd
          for (std::int64_t c = 0; c < count; ++c) combined[c] = Combine::combine(combined[c], further[c]);
        }
        convert_row(y + at, combined, count);
      }
    });
  }

 private:
  using Place = std::int64_t;
  static constexpr std::int64_t kColumns = 256;  // a row is read in stretches of 512 bytes or more

  /// places = where each row's indices are, in their order, row after row; ends[row] = behind the row's last.
  template <class Index>
  void sort(const Index* indices, Place* ends, Place* places) const {
    const std::int64_t num_rows = pieces_.table.num_rows;
    const auto for_each_index = [&](const auto& visit) {
      for (std::int64_t n = 0; n < pieces_.num_indices; ++n) {
        const auto row = static_cast<std::int64_t>(indices[n]);
        if (row >= 0 && row < num_rows) visit(row, n);
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

/// Rows combined in loops, see make_combined_rows.
struct LoopRows {
  template <class Combine, class T, class Index, class From>
  static std::unique_ptr<Kernel> combined(const GatherTable& table, std::int64_t num_indices, const From& from,
                                          std::vector<InPlace> in_place) {
    const SortedRows rows(table, num_indices);
    return function_kernel(
        [from, rows](const KernelArguments& arguments) {
          rows.run<Combine>(static_cast<T*>(arguments.outputs[0]), from(arguments), arguments.workspace);
        },
        {.workspace_bytes = rows.workspace_bytes(), .in_place = std::move(in_place)});
  }
};

}  // namespace sectionflow
