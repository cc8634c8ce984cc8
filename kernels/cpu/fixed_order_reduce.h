#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/shape.h"
#include "device/parallel.h"
#include "kernels/cpu/lines_ahead.h"
#include "kernels/cpu/wide_vectors.h"
#include "kernels/formulas/reduce.h"
#include "kernels/reduce_axes.h"

namespace sectionflow {

/// How a dense tensor is reduced over some of its dimensions in an order that its shape alone decides.
///
/// The reduced elements of a result are cut into blocks of fixed size; each block is reduced on its own, and the
/// partial results of a result's blocks are combined from the first to the last. Threads share blocks, so that their
/// number changes no bit.
class ReducePlan {
 public:
  ReducePlan(const Shape& x, const std::vector<bool>& reduced);

  std::int64_t num_results() const { return axes_.num_results(); }
  /// Elements of x that make one result.
  std::int64_t num_reduced() const { return axes_.num_reduced(); }
  /// Partial results to be held at a time; none where every result is one block.
  std::int64_t num_partials() const { return num_blocks_ > 1 ? num_blocks_ * num_results() : 0; }

  /// Calls `finish(result, total)` for each result. `Reducer` has the type `Accumulator` and the functions `start()`,
  /// `term(x, result)` and `combine(accumulator, accumulator or term)`; `partials`: room for num_partials().
  /// x is stored as T, f32 or bf16.
  template <class T, class Reducer, class Finish>
  void run(const T* x, typename Reducer::Accumulator* partials, const Reducer& reducer, const Finish& finish) const;

 private:
  /// What one thread reduces at a time: a piece of some rows, all of one kept position.
  struct Task {
    std::int64_t kept, block;
    std::int64_t first_row, last_row;  // of the reduced positions, last exclusive
    std::int64_t begin, end;           // within each row
  };

  /// Whether results are of neighbouring rows, each of them one, and so short that combining lanes takes as long.
  bool has_short_rows() const {
    return axes_.row_is_reduced && axes_.reduced.count == 1 && axes_.kept.rank <= 1 && num_blocks_ == 1 &&
           axes_.row_length <= 512;
  }
  void cut(std::int64_t max_piece, std::int64_t max_block_rows);
  Task task(std::int64_t number) const;
  template <class T, class Reducer>
  typename Reducer::Accumulator reduce_rows(const T* x, const Task& task, const Reducer& reducer) const;
  template <class T, class Reducer, class Finish>
  void reduce_short_rows(const T* x, std::int64_t first_result, const Reducer& reducer, const Finish& finish) const;
  template <class T, class Reducer, class Store>
  void reduce_columns(const T* x, const Task& task, const Reducer& reducer, const Store& store) const;

  // 8 KiB of double accumulators for columns stay in the first-level cache; 16 lanes fill the pipeline of an adder.
  static constexpr std::int64_t kColumns = 1024;
  static constexpr std::int64_t kLanes = 16;
  static constexpr std::int64_t kRowsTogether = 8;

  ReduceAxes axes_;
  std::int64_t piece_length_ = 1, pieces_per_row_ = 1;
  std::int64_t block_rows_ = 1, row_blocks_ = 1;
  std::int64_t num_blocks_ = 1;  // a result
};

inline ReducePlan::Task ReducePlan::task(std::int64_t number) const {
  std::int64_t piece = 0, row_block = 0;
  if (pieces_per_row_ > 1 || row_blocks_ > 1) {  // divisions take longer than a short row
    piece = number % pieces_per_row_;
    row_block = number / pieces_per_row_ % row_blocks_;
    number = number / pieces_per_row_ / row_blocks_;
  }
  Task task{};
  task.kept = number;
  task.block = axes_.row_is_reduced ? row_block * pieces_per_row_ + piece : row_block;
  task.first_row = std::min(axes_.reduced.count, row_block * block_rows_);
  task.last_row = std::min(axes_.reduced.count, task.first_row + block_rows_);
  task.begin = piece * piece_length_;
  task.end = std::min(axes_.row_length, task.begin + piece_length_);
  return task;
}

template <class T, class Reducer, class Finish>
void ReducePlan::run(const T* x, typename Reducer::Accumulator* partials, const Reducer& reducer,
                     const Finish& finish) const {
  using Accumulator = typename Reducer::Accumulator;
  const std::int64_t num_results = axes_.num_results();
  const auto store = [&](std::int64_t block, std::int64_t result, Accumulator total) {
    if (num_blocks_ == 1) {
      finish(result, total);
    } else {
      partials[block * num_results + result] = total;
    }
  };
  const std::int64_t grain = std::max<std::int64_t>(1, kParallelGrain / (block_rows_ * piece_length_));
  parallel_for(axes_.kept.count * row_blocks_ * pieces_per_row_, grain, [&](std::int64_t begin, std::int64_t end) {
    in_wide_vectors([&] {
      std::int64_t number = begin;
      if (has_short_rows()) {
        for (; number + kRowsTogether <= end; number += kRowsTogether) reduce_short_rows(x, number, reducer, finish);
      }
      for (; number < end; ++number) {
        const Task part = task(number);
        if (axes_.row_is_reduced) {
          store(part.block, part.kept, reduce_rows(x, part, reducer));
        } else {
          reduce_columns(x, part, reducer, store);
        }
      }
    });
  });
  if (num_blocks_ == 1) return;
  parallel_for(num_results, std::max<std::int64_t>(1, kParallelGrain / num_blocks_),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t result = begin; result < end; ++result) {
                   Accumulator total = partials[result];
                   for (std::int64_t block = 1; block < num_blocks_; ++block) {
                     total = reducer.combine(total, partials[block * num_results + result]);
                   }
                   finish(result, total);
                 }
               });
}

/// Combines the lanes of rows, the upper half of those that are left with the lower one, to the first of each. All rows
/// take a step before any takes the next, which waits for it; the widths are constants, so that a step is one
/// operation.
template <int kWidth, class Lanes, class Reducer>
void combine_lanes(Lanes* rows, Lanes* end, const Reducer& reducer) {
  for (Lanes* row = rows; row != end; ++row) {
#pragma omp simd
    for (int lane = 0; lane < kWidth; ++lane) (*row)[lane] = reducer.combine((*row)[lane], (*row)[lane + kWidth]);
  }
  if constexpr (kWidth > 1) combine_lanes<kWidth / 2>(rows, end, reducer);
}

template <class T, class Reducer>
typename Reducer::Accumulator ReducePlan::reduce_rows(const T* x, const Task& task, const Reducer& reducer) const {
  typename Reducer::Accumulator lanes[kLanes];
  std::fill(lanes, lanes + kLanes, reducer.start());
  const T* first = x + axes_.kept.offset_of(task.kept) + task.begin;
  const std::int64_t length = task.end - task.begin;
  const std::int64_t whole = length / kLanes * kLanes;
  for (std::int64_t r = task.first_row; r < task.last_row; ++r) {
    const T* elements = first + axes_.reduced.offset_of(r);
    for (std::int64_t i = 0; i < whole; i += kLanes) {
#pragma omp simd
      for (std::int64_t lane = 0; lane < kLanes; ++lane) {
        lanes[lane] = reducer.combine(lanes[lane], reducer.term(elements[i + lane], task.kept));
      }
    }
    for (std::int64_t i = whole; i < length; ++i) {
      lanes[i - whole] = reducer.combine(lanes[i - whole], reducer.term(elements[i], task.kept));
    }
  }
  combine_lanes<kLanes / 2>(&lanes, &lanes + 1, reducer);
  return lanes[0];
}

/// As reduce_rows, kRowsTogether rows side by side, since combining the lanes of one is a chain of operations that wait
/// for each other.
template <class T, class Reducer, class Finish>
void ReducePlan::reduce_short_rows(const T* x, std::int64_t first_result, const Reducer& reducer,
                                   const Finish& finish) const {
  typename Reducer::Accumulator lanes[kRowsTogether][kLanes];
  const std::int64_t length = axes_.row_length, whole = length / kLanes * kLanes;
  for (std::int64_t r = 0; r < kRowsTogether; ++r) {
    const T* elements = x + (first_result + r) * length;
    ask_ahead<CacheLevel::second>(elements, length, 2 * kBytesAhead);
    auto& of_row = lanes[r];
    std::fill(of_row, of_row + kLanes, reducer.start());
    for (std::int64_t i = 0; i < whole; i += kLanes) {
#pragma omp simd
      for (std::int64_t lane = 0; lane < kLanes; ++lane) {
        of_row[lane] = reducer.combine(of_row[lane], reducer.term(elements[i + lane], first_result + r));
      }
    }
    for (std::int64_t i = whole; i < length; ++i) {
      of_row[i - whole] = reducer.combine(of_row[i - whole], reducer.term(elements[i], first_result + r));
    }
  }
  combine_lanes<kLanes / 2>(lanes, lanes + kRowsTogether, reducer);
  for (std::int64_t r = 0; r < kRowsTogether; ++r) finish(first_result + r, lanes[r][0]);
}

template <class T, class Reducer, class Store>
void ReducePlan::reduce_columns(const T* x, const Task& task, const Reducer& reducer, const Store& store) const {
  typename Reducer::Accumulator totals[kColumns];
  const T* first = x + axes_.kept.offset_of(task.kept) + task.begin;
  const std::int64_t width = task.end - task.begin;
  const std::int64_t first_result = task.kept * axes_.row_length + task.begin;
  std::fill(totals, totals + width, reducer.start());
  std::int64_t r = task.first_row;
  // Four rows at a time spare loads and stores of the totals; the order within a column stays that of the rows.
  for (; r + 4 <= task.last_row; r += 4) {
    const T* row0 = first + axes_.reduced.offset_of(r);
    const T* row1 = first + axes_.reduced.offset_of(r + 1);
    const T* row2 = first + axes_.reduced.offset_of(r + 2);
    const T* row3 = first + axes_.reduced.offset_of(r + 3);
#pragma omp simd
    for (std::int64_t c = 0; c < width; ++c) {
      auto total = reducer.combine(totals[c], reducer.term(row0[c], first_result + c));
      total = reducer.combine(total, reducer.term(row1[c], first_result + c));
      total = reducer.combine(total, reducer.term(row2[c], first_result + c));
      totals[c] = reducer.combine(total, reducer.term(row3[c], first_result + c));
    }
  }
  for (; r < task.last_row; ++r) {
    const T* elements = first + axes_.reduced.offset_of(r);
#pragma omp simd
    for (std::int64_t c = 0; c < width; ++c) {
      totals[c] = reducer.combine(totals[c], reducer.term(elements[c], first_result + c));
    }
  }
  for (std::int64_t c = 0; c < width; ++c) store(task.block, first_result + c, totals[c]);
}

}  // namespace sectionflow
