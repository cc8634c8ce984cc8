#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/shape.h"
#include "device/parallel.h"

namespace sectionflow {

/// How a dense tensor is reduced over some of its dimensions in an order that its shape alone decides.
///
/// Neighbouring dimensions of one kind are merged; the last of what remains is the row. Either rows are reduced (each
/// belongs to one result), or they are kept (each adds to as many results as it is long). The reduced elements of a
/// result are cut into blocks of fixed size; each block is reduced on its own, and the partial results of a result's
/// blocks are combined from the first to the last. Threads share blocks, so that their number changes no bit.
class ReducePlan {
 public:
  ReducePlan(const Shape& x, const std::vector<bool>& reduced);

  std::int64_t num_results() const { return num_results_; }
  /// Elements of x that make one result.
  std::int64_t num_reduced() const { return num_reduced_; }
  /// Partial results to be held at a time; none where every result is one block.
  std::int64_t num_partials() const { return num_blocks_ > 1 ? num_blocks_ * num_results_ : 0; }

  /// Calls `finish(result, total)` for each result. `Reducer` has the type `Accumulator` and the functions `start()`,
  /// `term(x, result)` and `combine(accumulator, accumulator or term)`; `partials`: room for num_partials().
  template <class Reducer, class Finish>
  void run(const float* x, typename Reducer::Accumulator* partials, const Reducer& reducer, const Finish& finish) const;

 private:
  /// Positions in some of x's dimensions, counted in row-major order.
  struct Index {
    int rank = 0;
    std::int64_t count = 1;
    std::array<std::int64_t, Shape::kMaxRank> dims{}, strides{};
    std::int64_t offset_of(std::int64_t position) const;
  };
  /// What one thread reduces at a time: a piece of some rows, all of one kept position.
  struct Task {
    std::int64_t kept, block;
    std::int64_t first_row, last_row;  // of the reduced positions, last exclusive
    std::int64_t begin, end;           // within each row
  };

  void cut(std::int64_t max_piece, std::int64_t max_block_rows);
  Task task(std::int64_t number) const;
  template <class Reducer>
  typename Reducer::Accumulator reduce_rows(const float* x, const Task& task, const Reducer& reducer) const;
  template <class Reducer, class Store>
  void reduce_columns(const float* x, const Task& task, const Reducer& reducer, const Store& store) const;

  // 8 KiB of double accumulators for columns stay in the first-level cache; 16 lanes fill the pipeline of an adder.
  static constexpr std::int64_t kColumns = 1024;
  static constexpr std::int64_t kLanes = 16;

  bool row_is_reduced_ = false;
  std::int64_t row_length_ = 1;
  Index kept_, reduced_;  // but for the row
  std::int64_t num_results_ = 1, num_reduced_ = 1;
  std::int64_t piece_length_ = 1, pieces_per_row_ = 1;
  std::int64_t block_rows_ = 1, row_blocks_ = 1;
  std::int64_t num_blocks_ = 1;  // a result
};

/// Sums in double: a plain sum of f32 in f32 lanes would lose digits on long axes, and the loop waits for memory
/// anyway.
struct SumReducer {
  using Accumulator = double;
  static double start() { return 0; }
  static double term(float x, std::int64_t) { return x; }
  static double combine(double a, double b) { return a + b; }
};

/// The largest; a NaN counts as largest.
struct MaxReducer {
  using Accumulator = float;
  static float start() { return -std::numeric_limits<float>::infinity(); }
  static float term(float x, std::int64_t) { return x; }
  static float combine(float a, float b) { return b > a || b != b ? b : a; }
};

template <class Reducer, class Finish>
void ReducePlan::run(const float* x, typename Reducer::Accumulator* partials, const Reducer& reducer,
                     const Finish& finish) const {
  using Accumulator = typename Reducer::Accumulator;
  const auto store = [&](std::int64_t block, std::int64_t result, Accumulator total) {
    if (num_blocks_ == 1) {
      finish(result, total);
    } else {
      partials[block * num_results_ + result] = total;
    }
  };
  const std::int64_t grain = std::max<std::int64_t>(1, kParallelGrain / (block_rows_ * piece_length_));
  parallel_for(kept_.count * row_blocks_ * pieces_per_row_, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t number = begin; number < end; ++number) {
      const Task part = task(number);
      if (row_is_reduced_) {
        store(part.block, part.kept, reduce_rows(x, part, reducer));
      } else {
        reduce_columns(x, part, reducer, store);
      }
    }
  });
  if (num_blocks_ == 1) return;
  parallel_for(num_results_, std::max<std::int64_t>(1, kParallelGrain / num_blocks_),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t result = begin; result < end; ++result) {
                   Accumulator total = partials[result];
                   for (std::int64_t block = 1; block < num_blocks_; ++block) {
                     total = reducer.combine(total, partials[block * num_results_ + result]);
                   }
                   finish(result, total);
                 }
               });
}

template <class Reducer>
typename Reducer::Accumulator ReducePlan::reduce_rows(const float* x, const Task& task, const Reducer& reducer) const {
  typename Reducer::Accumulator lanes[kLanes];
  std::fill(lanes, lanes + kLanes, reducer.start());
  const float* first = x + kept_.offset_of(task.kept) + task.begin;
  const std::int64_t length = task.end - task.begin;
  const std::int64_t whole = length / kLanes * kLanes;
  for (std::int64_t r = task.first_row; r < task.last_row; ++r) {
    const float* elements = first + reduced_.offset_of(r);
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
  for (std::int64_t width = kLanes / 2; width > 0; width /= 2) {
#pragma omp simd
    for (std::int64_t lane = 0; lane < width; ++lane) lanes[lane] = reducer.combine(lanes[lane], lanes[lane + width]);
  }
  return lanes[0];
}

template <class Reducer, class Store>
void ReducePlan::reduce_columns(const float* x, const Task& task, const Reducer& reducer, const Store& store) const {
  typename Reducer::Accumulator totals[kColumns];
  const float* first = x + kept_.offset_of(task.kept) + task.begin;
  const std::int64_t width = task.end - task.begin;
  const std::int64_t first_result = task.kept * row_length_ + task.begin;
  std::fill(totals, totals + width, reducer.start());
  std::int64_t r = task.first_row;
  // Four rows at a time spare loads and stores of the totals; the order within a column stays that of the rows.
  for (; r + 4 <= task.last_row; r += 4) {
    const float* row0 = first + reduced_.offset_of(r);
    const float* row1 = first + reduced_.offset_of(r + 1);
    const float* row2 = first + reduced_.offset_of(r + 2);
    const float* row3 = first + reduced_.offset_of(r + 3);
#pragma omp simd
    for (std::int64_t c = 0; c < width; ++c) {
      auto total = reducer.combine(totals[c], reducer.term(row0[c], first_result + c));
      total = reducer.combine(total, reducer.term(row1[c], first_result + c));
      total = reducer.combine(total, reducer.term(row2[c], first_result + c));
      totals[c] = reducer.combine(total, reducer.term(row3[c], first_result + c));
    }
  }
  for (; r < task.last_row; ++r) {
    const float* elements = first + reduced_.offset_of(r);
#pragma omp simd
    for (std::int64_t c = 0; c < width; ++c) {
      totals[c] = reducer.combine(totals[c], reducer.term(elements[c], first_result + c));
    }
  }
  for (std::int64_t c = 0; c < width; ++c) store(task.block, first_result + c, totals[c]);
}

}  // namespace sectionflow
