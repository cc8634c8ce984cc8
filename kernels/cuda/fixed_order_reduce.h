#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/cuda/block_reduce.h"
#include "kernels/cuda/elements.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/positions.h"
#include "kernels/formulas/reduce.h"
#include "kernels/function_kernel.h"
#include "kernels/reduce_axes.h"

namespace sectionflow::gpu {

/// reducer.combine as a function.
template <class Reducer>
struct CombineOf {
  Reducer reducer;
  template <class T>
  SF_HOST_DEVICE T operator()(T a, T b) const {
    return reducer.combine(a, b);
  }
};

/// y[result] = total / divisor.
template <class T>
struct StoreQuotient {
  T* y;
  double divisor;
  SF_HOST_DEVICE void operator()(std::int64_t result, double total) const {
    y[result] = static_cast<T>(static_cast<float>(total / divisor));
  }
};
/// y[result] = total.
template <class T>
struct StoreTotal {
  T* y;
  template <class Total>
  SF_HOST_DEVICE void operator()(std::int64_t result, Total total) const {
    y[result] = static_cast<T>(total);
  }
};

/// Partial results of one piece of the reduced elements as elements to be combined.
template <class Reducer>
struct PartialReducer : Reducer {
  using Accumulator = typename Reducer::Accumulator;
  SF_HOST_DEVICE static Accumulator term(Accumulator x, std::int64_t) { return x; }
};

/// Where a result's elements are cut: piece p holds the elements, or rows, [p length, (p + 1) length).
struct Pieces {
  std::int64_t count = 1, length = 1;
};

/// A group of threads a piece of a result: its elements lie along rows.
template <class Element, class Reducer, class Finish>
struct ReduceRows {
  using Accumulator = typename Reducer::Accumulator;
  const Element* x;
  Positions<1> kept, reduced;
  Divisor row_length;
  std::int64_t num_reduced, num_results;
  Pieces pieces;
  int group;
  Reducer reducer;
  Finish finish;  // (piece num_results + result, total)

  template <class Thread>
  SF_HOST_DEVICE void operator()(Thread& thread) const {
    const std::int64_t task = thread.block() * (thread.block_size() / group) + thread.index() / group;
    const std::int64_t result = task / pieces.count, piece = task - result * pieces.count;
    const bool is_one = result < num_results;
    const int lane = thread.index() % group;
    Accumulator total = reducer.start();
    if (is_one) total = total_of(result, piece * pieces.length, lane);
    total = group_reduce(thread, total, group, 0, CombineOf<Reducer>{reducer});
    if (is_one && lane == 0) finish(piece * num_results + result, total);
  }

  SF_HOST_DEVICE Accumulator total_of(std::int64_t result, std::int64_t begin, int lane) const {
    const Element* first = x + kept.offset_of(result);
    std::int64_t end = begin + pieces.length;
    if (end > num_reduced) end = num_reduced;
    Accumulator total = reducer.start();
    std::int64_t e = begin + lane;
    // Four loads are on their way together; the order within a lane stays that of the elements.
    for (; e + 3 * group < end; e += 4 * group) {
      const Element x0 = first[offset_of(e)], x1 = first[offset_of(e + group)];
      const Element x2 = first[offset_of(e + 2 * group)], x3 = first[offset_of(e + 3 * group)];
      total = reducer.combine(total, reducer.term(x0, result));
      total = reducer.combine(total, reducer.term(x1, result));
      total = reducer.combine(total, reducer.term(x2, result));
      total = reducer.combine(total, reducer.term(x3, result));
    }
    for (; e < end; e += group) total = reducer.combine(total, reducer.term(first[offset_of(e)], result));
    return total;
  }
  SF_HOST_DEVICE std::int64_t offset_of(std::int64_t element) const {
    if (reduced.rank == 0) return element;
    const std::int64_t along = row_length.cut(element);
    return reduced.offset_of(element) + along;
  }
};

/// Some neighbouring columns of a piece of rows a block, each by several threads that take every so many-th row.
template <class Element, class Reducer, class Finish>
struct ReduceColumns {
  using Accumulator = typename Reducer::Accumulator;
  const Element* x;
  Positions<1> kept, reduced;
  std::int64_t row_length, num_rows, num_results;
  std::int64_t tiles;  // that the columns of a row make
  int width;           // columns of a tile, a power of two
  Pieces pieces;
  Reducer reducer;
  Finish finish;  // (piece num_results + result, total)

  template <class Thread>
  SF_HOST_DEVICE void operator()(Thread& thread) const {
    const std::int64_t tile = thread.block() / pieces.count, piece = thread.block() - tile * pieces.count;
    const std::int64_t kept_position = tile / tiles;
    const std::int64_t column = (tile - kept_position * tiles) * width + thread.index() % width;
    const int lane = thread.index() / width, lanes = thread.block_size() / width;
    const std::int64_t result = kept_position * row_length + column;
    Accumulator total = reducer.start();
    if (column < row_length) {
      total = total_of(x + kept.offset_of(kept_position) + column, result, piece * pieces.length, lane, lanes);
    }
    auto totals = thread.template shared<Accumulator>(0, thread.block_size());
    totals[thread.index()] = total;
    thread.barrier();
    for (int half = lanes / 2; half > 0; half /= 2) {
      if (lane < half) {
        const Accumulator other = totals[thread.index() + half * width];
        total = reducer.combine(total, other);
        totals[thread.index()] = total;
      }
      thread.barrier();
    }
    if (lane == 0 && column < row_length) finish(piece * num_results + result, total);
  }

  SF_HOST_DEVICE Accumulator total_of(const Element* first, std::int64_t result, std::int64_t begin, int lane,
                                      int lanes) const {
    std::int64_t end = begin + pieces.length;
    if (end > num_rows) end = num_rows;
    Accumulator total = reducer.start();
    std::int64_t r = begin + lane;
    for (; r + 3 * lanes < end; r += 4 * lanes) {
      const Element x0 = first[reduced.offset_of(r)], x1 = first[reduced.offset_of(r + lanes)];
      const Element x2 = first[reduced.offset_of(r + 2 * lanes)], x3 = first[reduced.offset_of(r + 3 * lanes)];
      total = reducer.combine(total, reducer.term(x0, result));
      total = reducer.combine(total, reducer.term(x1, result));
      total = reducer.combine(total, reducer.term(x2, result));
      total = reducer.combine(total, reducer.term(x3, result));
    }
    for (; r < end; r += lanes) total = reducer.combine(total, reducer.term(first[reduced.offset_of(r)], result));
    return total;
  }
};

/// A result a thread, which goes down its column: for few rows, or so many results that all threads have one.
template <class Element, class Reducer, class Finish>
struct ReduceColumn {
  const Element* x;
  Positions<1> kept, reduced;
  Divisor row_length;
  std::int64_t num_rows;
  Reducer reducer;
  Finish finish;

  SF_HOST_DEVICE void operator()(std::int64_t result) const {
    std::int64_t position = result;
    const std::int64_t column = row_length.cut(position);
    const Element* first = x + kept.offset_of(position) + column;
    typename Reducer::Accumulator total = reducer.start();
    for (std::int64_t r = 0; r < num_rows; ++r) {
      total = reducer.combine(total, reducer.term(first[reduced.offset_of(r)], result));
    }
    finish(result, total);
  }
};

/// How a dense tensor is reduced over some of its dimensions, in an order that its shape alone decides: the elements of
/// a result are cut into pieces where there are few results, and the totals of the pieces are combined in a second
/// launch. `Reducer`: as formulas/reduce.h has them.
class ReducePlan {
 public:
  ReducePlan(const Shape& x, const std::vector<bool>& reduced) : axes_(x, reduced) {
    const std::int64_t results = std::max<std::int64_t>(1, axes_.num_results());
    if (axes_.row_is_reduced) {
      group_ = group_for(axes_.num_reduced(), kThreads);
      pieces_ = group_ == kThreads ? cut(axes_.num_reduced(), results, kPieceElements)
                                   : Pieces{1, std::max<std::int64_t>(1, axes_.num_reduced())};
    } else {
      while (width_ < kWarp && width_ < axes_.row_length) width_ *= 2;
      column_a_thread_ = axes_.reduced.count <= kFewRows || results >= kManyResults;
      const std::int64_t blocks = std::max<std::int64_t>(1, axes_.kept.count * tiles_of(axes_.row_length, width_));
      pieces_ = column_a_thread_ ? Pieces() : cut(axes_.reduced.count, blocks, kPieceElements / width_);
    }
  }

  std::int64_t num_results() const { return axes_.num_results(); }
  /// Elements of x that make one result.
  std::int64_t num_reduced() const { return axes_.num_reduced(); }
  template <class Reducer>
  std::size_t workspace_bytes() const {
    const std::int64_t partials = pieces_.count > 1 ? pieces_.count * num_results() : 0;
    return static_cast<std::size_t>(partials) * sizeof(typename Reducer::Accumulator);
  }

  /// Calls finish(result, total) for each result of x, f32 or bf16, on the device. `workspace`:
  /// workspace_bytes<Reducer>().
  template <class Element, class Reducer, class Finish>
  void run(void* queue, const Element* x, void* workspace, const Reducer& reducer, const Finish& finish) const {
    if (pieces_.count == 1) {
      reduce(queue, x, reducer, finish);
      return;
    }
    using Accumulator = typename Reducer::Accumulator;
    auto* partials = static_cast<Accumulator*>(workspace);  // [pieces, results]
    reduce(queue, x, reducer, StoreTotal<Accumulator>{partials});
    int width = 1;
    while (width < kWarp && width < num_results()) width *= 2;
    const std::int64_t tiles = tiles_of(num_results(), width);
    using Partial = PartialReducer<Reducer>;
    launch_blocks(queue, {.blocks = tiles, .threads = kThreads, .shared_bytes = kThreads * sizeof(Accumulator)},
                  ReduceColumns<Accumulator, Partial, Finish>{
                      partials, Positions<1>(), rows_of(pieces_.count, num_results()), num_results(), pieces_.count,
                      num_results(), tiles, width, Pieces{1, pieces_.count}, Partial{reducer}, finish});
  }

 private:
  static constexpr int kThreads = 256;
  static constexpr std::int64_t kPieceElements = 4096;  ///< the least that is worth a block
  static constexpr std::int64_t kEnoughBlocks = 1024;   ///< keep every multiprocessor of a large GPU busy
  static constexpr std::int64_t kFewRows = 16;
  static constexpr std::int64_t kManyResults = std::int64_t{1} << 18;

  static std::int64_t tiles_of(std::int64_t columns, int width) { return (columns + width - 1) / width; }
  /// Positions of the rows of a matrix.
  static Positions<1> rows_of(std::int64_t count, std::int64_t length) {
    ReduceAxes::Index index;
    index.rank = 1;
    index.count = index.dims[0] = count;
    index.strides[0] = length;
    return Positions<1>(index);
  }
  /// `count` elements of each result, of which `tasks` are there anyway.
  static Pieces cut(std::int64_t count, std::int64_t tasks, std::int64_t least) {
    const std::int64_t wanted = (kEnoughBlocks + tasks - 1) / tasks;
    const std::int64_t most = std::max<std::int64_t>(1, (count + least - 1) / least);
    const std::int64_t pieces = std::min(wanted, most);
    const std::int64_t length = std::max<std::int64_t>(1, (count + pieces - 1) / pieces);
    return {std::max<std::int64_t>(1, (count + length - 1) / length), length};
  }

  template <class Element, class Reducer, class Finish>
  void reduce(void* queue, const Element* x, const Reducer& reducer, const Finish& finish) const {
    const Positions<1> kept(axes_.kept), reduced(axes_.reduced);
    const std::int64_t results = num_results();
    if (axes_.row_is_reduced) {
      const std::int64_t blocks = blocks_for(results * pieces_.count, kThreads / group_);
      launch_blocks(
          queue, {.blocks = blocks, .threads = kThreads, .shared_bytes = reduce_bytes<typename Reducer::Accumulator>()},
          ReduceRows<Element, Reducer, Finish>{x, kept, reduced, Divisor(axes_.row_length), num_reduced(), results,
                                               pieces_, group_, reducer, finish});
    } else if (column_a_thread_) {
      launch_each(queue, results,
                  ReduceColumn<Element, Reducer, Finish>{x, kept, reduced, Divisor(axes_.row_length),
                                                         axes_.reduced.count, reducer, finish});
    } else {
      const std::int64_t tiles = tiles_of(axes_.row_length, width_);
      launch_blocks(queue,
                    {.blocks = axes_.kept.count * tiles * pieces_.count,
                     .threads = kThreads,
                     .shared_bytes = kThreads * sizeof(typename Reducer::Accumulator)},
                    ReduceColumns<Element, Reducer, Finish>{x, kept, reduced, axes_.row_length, axes_.reduced.count,
                                                            results, tiles, width_, pieces_, reducer, finish});
    }
  }

  ReduceAxes axes_;
  Pieces pieces_;
  int group_ = 1;  // rows are reduced: threads a piece
  int width_ = 1;  // rows are kept: columns a block
  bool column_a_thread_ = false;
};

/// The kernel of the sums, divided by `divisor`, of input 0, which is stored as T like output 0.
template <class T>
std::unique_ptr<Kernel> sum_kernel_of(const ReducePlan& plan, double divisor) {
  return function_kernel(
      [plan, divisor](const KernelArguments& arguments) {
        plan.run(arguments.queue, static_cast<const T*>(arguments.inputs[0]), arguments.workspace,
                 formulas::SumReducer(), StoreQuotient<T>{static_cast<T*>(arguments.outputs[0]), divisor});
      },
      {.workspace_bytes = plan.workspace_bytes<formulas::SumReducer>()});
}
/// The same for f32 or bf16.
inline std::unique_ptr<Kernel> sum_kernel(const ReducePlan& plan, Dtype dtype, double divisor) {
  return with_stored_type(dtype, [&](auto element) { return sum_kernel_of<decltype(element)>(plan, divisor); });
}

}  // namespace sectionflow::gpu
