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

/// Elements that a thread takes together where rows are whole packs of them: as many of f32 as of bf16, which are
/// reduced in one order. Totals of pieces are taken one by one.
inline constexpr int kReducedPack = 4;
/// Packs whose loads are on the way together.
inline constexpr int kPacksAtATime = 4;

/// Packs of `count` places: place(0), place(1), ...
template <int kPack, int kCount, class Element, class Place>
SF_HOST_DEVICE void load_packs(Pack<Element, kPack> (&packs)[kCount], const Element* x, const Place& place) {
  for (int i = 0; i < kCount; ++i) packs[i] = load_pack<kPack>(x + place(i));
}

/// A group of threads a piece of a result: its elements lie along rows.
template <int kPack, class Element, class Reducer, class Finish>
struct ReduceRows {
  using Accumulator = typename Reducer::Accumulator;
  const Element* x;
  Positions<1> kept, reduced;
  Divisor row_length, num_pieces;
  std::int64_t num_reduced, num_results, piece_length;
  int group;
  Reducer reducer;
  Finish finish;  // (piece num_results + result, total)

  template <class Thread>
  SF_HOST_DEVICE void operator()(Thread& thread) const {
    std::int64_t result = thread.block() * (thread.block_size() / group) + thread.index() / group;
    const std::int64_t piece = num_pieces.cut(result);
    const bool is_one = result < num_results;
    const int lane = thread.index() % group;
    Accumulator total = reducer.start();
    if (is_one) total = total_of(result, piece * piece_length, lane);
    total = group_reduce(thread, total, group, 0, CombineOf<Reducer>{reducer});
    if (is_one && lane == 0) finish(piece * num_results + result, total);
  }

  SF_HOST_DEVICE Accumulator total_of(std::int64_t result, std::int64_t begin, int lane) const {
    const Element* first = x + kept.offset_of(result);
    const std::int64_t end = begin + piece_length < num_reduced ? begin + piece_length : num_reduced;
    const std::int64_t step = kPack * group;
    Accumulator total = reducer.start();
    const auto add = [&](const Pack<Element, kPack>& pack) {
      for (int i = 0; i < kPack; ++i) total = reducer.combine(total, reducer.term(pack.values[i], result));
    };
    std::int64_t e = begin + kPack * lane;
    for (; e + (kPacksAtATime - 1) * step < end; e += kPacksAtATime * step) {
      Pack<Element, kPack> packs[kPacksAtATime];
      load_packs(packs, first, [&](int i) { return offset_of(e + i * step); });
      for (int i = 0; i < kPacksAtATime; ++i) add(packs[i]);
    }
    for (; e < end; e += step) add(load_pack<kPack>(first + offset_of(e)));
    return total;
  }
  SF_HOST_DEVICE std::int64_t offset_of(std::int64_t element) const {
    if (reduced.rank == 0) return element;
    const std::int64_t along = row_length.cut(element);
    return reduced.offset_of(element) + along;
  }
};

/// Some neighbouring columns of a piece of rows a block, a pack of them by several threads that take every so many-th
/// row. All columns of a piece come before the next piece.
template <int kPack, class Element, class Reducer, class Finish>
struct ReduceColumns {
  using Accumulator = typename Reducer::Accumulator;
  const Element* x;
  Positions<1> kept, reduced;
  std::int64_t row_length, num_rows, num_results, piece_length;
  Divisor row_tiles, all_tiles;  // tiles that the columns of a row make; and those of all kept positions
  int width;                     // packs of a tile, a power of two
  Reducer reducer;
  Finish finish;  // (piece num_results + result, total)

  template <class Thread>
  SF_HOST_DEVICE void operator()(Thread& thread) const {
    std::int64_t piece = thread.block();
    std::int64_t kept_position = all_tiles.cut(piece);
    const std::int64_t tile = row_tiles.cut(kept_position);
    const std::int64_t column = (tile * width + thread.index() % width) * kPack;
    const int lane = thread.index() / width, lanes = thread.block_size() / width;
    const std::int64_t result = kept_position * row_length + column;
    Accumulator totals[kPack];
    for (int i = 0; i < kPack; ++i) totals[i] = reducer.start();
    if (column < row_length) {
      add_rows(x + kept.offset_of(kept_position) + column, result, piece * piece_length, lane, lanes, totals);
    }
    combine_lanes(thread, lane, lanes, totals);
    if (lane != 0 || column >= row_length) return;
    for (int i = 0; i < kPack; ++i) finish(piece * num_results + result + i, totals[i]);
  }

 private:
  SF_HOST_DEVICE void add_rows(const Element* first, std::int64_t result, std::int64_t begin, int lane, int lanes,
                               Accumulator (&totals)[kPack]) const {
    const std::int64_t end = begin + piece_length < num_rows ? begin + piece_length : num_rows;
    const auto add = [&](const Pack<Element, kPack>& pack) {
      for (int i = 0; i < kPack; ++i) totals[i] = reducer.combine(totals[i], reducer.term(pack.values[i], result + i));
    };
    std::int64_t r = begin + lane;
    for (; r + (kPacksAtATime - 1) * lanes < end; r += kPacksAtATime * lanes) {
      Pack<Element, kPack> packs[kPacksAtATime];
      load_packs(packs, first, [&](int i) { return reduced.offset_of(r + i * lanes); });
      for (int i = 0; i < kPacksAtATime; ++i) add(packs[i]);
    }
    for (; r < end; r += lanes) add(load_pack<kPack>(first + reduced.offset_of(r)));
  }

  /// Gives lane 0 the totals of all lanes, a power of two.
  template <class Thread>
  SF_HOST_DEVICE void combine_lanes(Thread& thread, int lane, int lanes, Accumulator (&totals)[kPack]) const {
    const int threads = thread.block_size();
    auto shared = thread.template shared<Accumulator>(0, kPack * threads);
    for (int i = 0; i < kPack; ++i) shared[i * threads + thread.index()] = totals[i];
    thread.barrier();
    for (int half = lanes / 2; half > 0; half /= 2) {
      if (lane < half) {
        for (int i = 0; i < kPack; ++i) {
          const Accumulator other = shared[i * threads + thread.index() + half * width];
          totals[i] = reducer.combine(totals[i], other);
          shared[i * threads + thread.index()] = totals[i];
        }
      }
      thread.barrier();
    }
  }
};

/// A pack of results a thread, which goes down their columns: for few rows, or so many results that all threads have
/// some.
template <int kPack, class Element, class Reducer, class Finish>
struct ReduceColumn {
  const Element* x;
  Positions<1> kept, reduced;
  Divisor row_packs;
  std::int64_t num_rows;
  Reducer reducer;
  Finish finish;

  SF_HOST_DEVICE void operator()(std::int64_t number) const {
    const std::int64_t result = kPack * number;
    const std::int64_t column = kPack * row_packs.cut(number);
    const Element* first = x + kept.offset_of(number) + column;
    typename Reducer::Accumulator totals[kPack];
    for (int i = 0; i < kPack; ++i) totals[i] = reducer.start();
    for (std::int64_t r = 0; r < num_rows; ++r) {
      const Pack<Element, kPack> pack = load_pack<kPack>(first + reduced.offset_of(r));
      for (int i = 0; i < kPack; ++i) totals[i] = reducer.combine(totals[i], reducer.term(pack.values[i], result + i));
    }
    for (int i = 0; i < kPack; ++i) finish(result + i, totals[i]);
  }
};

/// How a dense tensor is reduced over some of its dimensions, in an order that its shape alone decides: the elements of
/// a result are cut into pieces where there are few results, and the totals of the pieces are combined in a second
/// launch. `Reducer`: as formulas/reduce.h has them.
class ReducePlan {
 public:
  ReducePlan(const Shape& x, const std::vector<bool>& reduced) : axes_(x, reduced) {
    const std::int64_t results = std::max<std::int64_t>(1, axes_.num_results());
    if (axes_.row_length % kReducedPack == 0) pack_ = kReducedPack;
    if (axes_.row_is_reduced) {
      const std::int64_t packs = axes_.num_reduced() / pack_;
      group_ = group_for(packs, kThreads);
      pieces_ = group_ == kThreads ? cut(packs, results, kPacksAtATime * kThreads)
                                   : Pieces{1, std::max<std::int64_t>(1, packs)};
      pieces_.length *= pack_;
    } else {
      while (width_ < kWarp && width_ < axes_.row_length / pack_) width_ *= 2;
      column_a_thread_ = axes_.reduced.count <= kFewRows || results >= kManyResults;
      const std::int64_t blocks = std::max<std::int64_t>(1, axes_.kept.count * row_tiles());
      pieces_ = column_a_thread_ ? Pieces() : cut(axes_.reduced.count, blocks, kPacksAtATime * (kThreads / width_));
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
    while (width < kWidthOfPartials && 2 * width * kMultiprocessors <= num_results()) width *= 2;
    const std::int64_t tiles = tiles_of(num_results(), width);
    using Partial = PartialReducer<Reducer>;
    launch_blocks(queue, {.blocks = tiles, .threads = kThreads, .shared_bytes = kThreads * sizeof(Accumulator)},
                  ReduceColumns<1, Accumulator, Partial, Finish>{
                      partials, Positions<1>(), rows_of(pieces_.count, num_results()), num_results(), pieces_.count,
                      num_results(), pieces_.count, Divisor(tiles), Divisor(tiles), width, Partial{reducer}, finish});
  }

 private:
  static constexpr int kThreads = 256;
  static constexpr std::int64_t kMultiprocessors = 132;
  static constexpr std::int64_t kEnoughBlocks = 8 * kMultiprocessors;
  static constexpr int kWidthOfPartials = 8;  ///< of 64 bytes; fewer where that gives multiprocessors something to do
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
  /// `count` packs or rows of each result, of which `tasks` are there anyway, in pieces of whole turns: what a block
  /// loads at once.
  static Pieces cut(std::int64_t count, std::int64_t tasks, std::int64_t turn) {
    const std::int64_t wanted = (kEnoughBlocks + tasks - 1) / tasks;
    const std::int64_t turns = std::max<std::int64_t>(1, (count + turn - 1) / turn);
    const std::int64_t length = (turns + wanted - 1) / wanted * turn;
    return {std::max<std::int64_t>(1, (count + length - 1) / length), length};
  }

  std::int64_t row_tiles() const { return tiles_of(axes_.row_length / pack_, width_); }

  template <class Element, class Reducer, class Finish>
  void reduce(void* queue, const Element* x, const Reducer& reducer, const Finish& finish) const {
    if (pack_ == 1) {
      reduce_packs<1>(queue, x, reducer, finish);
    } else {
      reduce_packs<kReducedPack>(queue, x, reducer, finish);
    }
  }
  template <int kPack, class Element, class Reducer, class Finish>
  void reduce_packs(void* queue, const Element* x, const Reducer& reducer, const Finish& finish) const {
    using Accumulator = typename Reducer::Accumulator;
    const Positions<1> kept(axes_.kept), reduced(axes_.reduced);
    const std::int64_t results = num_results(), row_length = axes_.row_length;
    if (axes_.row_is_reduced) {
      const std::int64_t blocks = blocks_for(results * pieces_.count, kThreads / group_);
      launch_blocks(
          queue, {.blocks = blocks, .threads = kThreads, .shared_bytes = reduce_bytes<Accumulator>()},
          ReduceRows<kPack, Element, Reducer, Finish>{x, kept, reduced, Divisor(row_length), Divisor(pieces_.count),
                                                      num_reduced(), results, pieces_.length, group_, reducer, finish});
    } else if (column_a_thread_) {
      launch_each(queue, results / kPack,
                  ReduceColumn<kPack, Element, Reducer, Finish>{x, kept, reduced, Divisor(row_length / kPack),
                                                                axes_.reduced.count, reducer, finish});
    } else {
      const std::int64_t tiles = axes_.kept.count * row_tiles();
      launch_blocks(queue,
                    {.blocks = tiles * pieces_.count,
                     .threads = kThreads,
                     .shared_bytes = kPack * kThreads * sizeof(Accumulator)},
                    ReduceColumns<kPack, Element, Reducer, Finish>{x, kept, reduced, row_length, axes_.reduced.count,
                                                                   results, pieces_.length, Divisor(row_tiles()),
                                                                   Divisor(tiles), width_, reducer, finish});
    }
  }

  ReduceAxes axes_;
  Pieces pieces_;
  int group_ = 1;  // rows are reduced: threads a piece
  int width_ = 1;  // rows are kept: packs of columns a block
  int pack_ = 1;   // elements of a row that a thread takes together
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
