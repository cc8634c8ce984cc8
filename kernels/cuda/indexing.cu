#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "base/error.h"
#include "graph/nodes/indexing.h"
#include "graph/ops/indexing.h"
#include "kernels/cuda/block_reduce.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/elements.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/positions.h"
#include "kernels/formulas/indexing.h"
#include "kernels/function_kernel.h"
#include "kernels/gather_family.h"

namespace sectionflow {
namespace {

/// Where element i of [count, length] lies. `is_small`: the number of elements fits 32 bits, in which divisions take a
/// fraction of the time.
struct RowAndColumn {
  std::int64_t row, column;
  SF_HOST_DEVICE RowAndColumn(std::int64_t i, std::int64_t length, bool is_small) {
    if (is_small) {
      const std::uint32_t quotient = static_cast<std::uint32_t>(i) / static_cast<std::uint32_t>(length);
      row = quotient;
      column = static_cast<std::uint32_t>(i) - quotient * static_cast<std::uint32_t>(length);
    } else {
      row = i / length;
      column = i % length;
    }
  }
};
bool is_small(std::int64_t count) {
  return count <= 0xFFFFFFFFLL;
}

/// What a thread moves at once where rows are made of such: 16 bytes. Else it moves an element.
struct alignas(16) LongWord {
  std::uint32_t parts[4];
};
template <class T>
using WordLike = std::conditional_t<
    sizeof(T) == 8, std::uint64_t,
    std::conditional_t<sizeof(T) == 4, std::uint32_t, std::conditional_t<sizeof(T) == 2, std::uint16_t, std::uint8_t>>>;

/// y[n] = rows[indices[n]], word by word.
template <class Word, class Index>
struct TakeRows {
  const Word* rows;
  const Index* indices;
  Word* y;
  std::int64_t num_rows, words_a_row;
  bool is_small;
  Word missing;

  SF_HOST_DEVICE void operator()(std::int64_t i) const {
    const RowAndColumn at(i, words_a_row, is_small);
    const auto index = static_cast<std::int64_t>(indices[at.row]);
    y[i] = index >= 0 && index < num_rows ? rows[index * words_a_row + at.column] : missing;
  }
};

template <class T, class Word, class Index>
std::unique_ptr<Kernel> make_gather_by(const KernelRequest& request) {
  const GatherTable table(request.inputs[0].shape);
  const std::int64_t words = table.row_length * static_cast<std::int64_t>(sizeof(T)) / sizeof(Word);
  const std::int64_t count = request.inputs[1].shape.num_elements() * words;
  Word missing{};
  for (std::size_t at = 0; at < sizeof(Word); at += sizeof(T)) {
    const T element = formulas::missing_element<T>();
    std::memcpy(reinterpret_cast<unsigned char*>(&missing) + at, &element, sizeof(T));
  }
  return function_kernel([=](const KernelArguments& arguments) {
    gpu::launch_each(arguments.queue, count,
                     TakeRows<Word, Index>{
                         static_cast<const Word*>(arguments.inputs[0]), static_cast<const Index*>(arguments.inputs[1]),
                         static_cast<Word*>(arguments.outputs[0]), table.num_rows, words, is_small(count), missing});
  });
}

// The gradient sorts the indices, each with its place, and adds up the rows of dy that belong to one row of the table
// in that order. All keys differ, so that there is one order however they are sorted.

/// Indices with their places, as numbers that sort first by index: index << place_bits | place. Those outside of the
/// table count as the one behind its last row.
struct Keys {
  Keys(const GatherTable& table, std::int64_t num_indices)
      : num_rows(table.num_rows),
        count(num_indices),
        place_bits(std::bit_width(static_cast<std::uint64_t>(num_indices))) {
    SF_CHECK(std::bit_width(static_cast<std::uint64_t>(num_rows)) + place_bits <= 63, ArgumentError,
             "gather_grad: ", num_indices, " indices into a table of ", num_rows,
             " rows; wanted fewer than 2^63 pairs of them");
  }

  template <class Index>
  SF_HOST_DEVICE std::int64_t key(const Index* indices, std::int64_t place) const {
    const auto index = static_cast<std::int64_t>(indices[place]);
    return first_of(index >= 0 && index < num_rows ? index : num_rows) | place;
  }
  /// The least key that row `row` may have.
  SF_HOST_DEVICE std::int64_t first_of(std::int64_t row) const { return row << place_bits; }
  SF_HOST_DEVICE std::int64_t place(std::int64_t key) const { return key & ((std::int64_t{1} << place_bits) - 1); }

  std::int64_t num_rows, count;
  int place_bits;
};

/// How many of keys[begin, end), which are sorted, lie below `key`.
SF_HOST_DEVICE inline std::int64_t count_below(const std::int64_t* keys, std::int64_t begin, std::int64_t end,
                                               std::int64_t key) {
  std::int64_t low = begin, high = end;
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    if (keys[middle] < key) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low - begin;
}

/// sorted = the keys, sorted within runs of kRun.
template <class Index>
struct SortRuns {
  static constexpr std::int64_t kRun = 32;
  Keys keys;
  const Index* indices;
  std::int64_t* sorted;

  SF_HOST_DEVICE void operator()(std::int64_t place) const {
    const std::int64_t begin = place / kRun * kRun, end = begin + kRun < keys.count ? begin + kRun : keys.count;
    const std::int64_t key = keys.key(indices, place);
    std::int64_t below = 0;
    for (std::int64_t other = begin; other < end; ++other) below += keys.key(indices, other) < key ? 1 : 0;
    sorted[begin + below] = key;
  }
};

/// Two neighbouring sorted runs of `from` become one of `to`: a key goes as far as there are smaller ones in both.
struct MergeRuns {
  const std::int64_t* from;
  std::int64_t* to;
  std::int64_t count, run;

  SF_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t own = i / run * run, pair = own / (2 * run) * (2 * run);
    const std::int64_t other = own == pair ? smaller(own + run, count) : pair;
    const std::int64_t other_end = smaller(other + run, count);
    const std::int64_t key = from[i];
    to[pair + (i - own) + count_below(from, other, other_end, key)] = key;
  }
  SF_HOST_DEVICE static std::int64_t smaller(std::int64_t a, std::int64_t b) { return a < b ? a : b; }
};

/// begins[row] = where the keys of the row begin, for all rows and one more.
struct FindRows {
  Keys keys;
  const std::int64_t* sorted;
  std::int64_t* begins;
  SF_HOST_DEVICE void operator()(std::int64_t row) const {
    begins[row] = count_below(sorted, 0, keys.count, keys.first_of(row));
  }
};

/// dtable[row] = the sum of its rows of dy in the order of their places, from 0 on; `kColumns` columns a thread.
template <class T, int kColumns>
struct SumRows {
  Keys keys;
  const T* dy;
  const std::int64_t *sorted, *begins;
  T* dtable;
  std::int64_t columns;  // row_length / kColumns
  bool is_small;

  using Part = gpu::Pack<T, kColumns>;
  static constexpr int kAtATime = 4;  // loads in flight, which the additions then take in their order

  SF_HOST_DEVICE void operator()(std::int64_t i) const {
    const RowAndColumn at(i, columns, is_small);
    const T* first = dy + at.column * kColumns;
    const auto load = [&](std::int64_t key) {
      return gpu::load_pack<kColumns>(first + keys.place(key) * columns * kColumns);
    };
    float sums[kColumns] = {};
    std::int64_t k = begins[at.row];
    const std::int64_t end = begins[at.row + 1];
    for (; k + kAtATime <= end; k += kAtATime) {
      Part next[kAtATime];
      for (int ahead = 0; ahead < kAtATime; ++ahead) next[ahead] = load(sorted[k + ahead]);
      for (int ahead = 0; ahead < kAtATime; ++ahead) add(sums, next[ahead]);
    }
    for (; k < end; ++k) add(sums, load(sorted[k]));
    Part rounded;
    for (int c = 0; c < kColumns; ++c) rounded.values[c] = static_cast<T>(sums[c]);
    gpu::store_pack(dtable + i * kColumns, rounded);
  }
  SF_HOST_DEVICE static void add(float (&sums)[kColumns], const Part& part) {
    for (int c = 0; c < kColumns; ++c) sums[c] += static_cast<float>(part.values[c]);
  }
};

template <class T, class Index>
class RowSums {
 public:
  RowSums(const GatherTable& table, std::int64_t num_indices, WorkspaceLayout& workspace)
      : table_(table), keys_(table, num_indices) {
    for (std::size_t& at : keys_at_) at = workspace.add(static_cast<std::size_t>(num_indices) * sizeof(std::int64_t));
    begins_at_ = workspace.add(static_cast<std::size_t>(table.num_rows + 1) * sizeof(std::int64_t));
  }

  void operator()(const KernelArguments& arguments) const {
    const auto part = [&](std::size_t at) {
      return static_cast<std::int64_t*>(workspace_part(arguments.workspace, at));
    };
    const std::int64_t count = keys_.count;
    std::int64_t *sorted = part(keys_at_[0]), *other = part(keys_at_[1]), *begins = part(begins_at_);
    gpu::launch_each(arguments.queue, count,
                     SortRuns<Index>{keys_, static_cast<const Index*>(arguments.inputs[1]), sorted});
    for (std::int64_t run = SortRuns<Index>::kRun; run < count; run *= 2) {
      gpu::launch_each(arguments.queue, count, MergeRuns{sorted, other, count, run});
      std::swap(sorted, other);
    }
    gpu::launch_each(arguments.queue, table_.num_rows + 1, FindRows{keys_, sorted, begins});
    if (table_.row_length % 4 == 0) {
      sum<4>(arguments, sorted, begins);
    } else {
      sum<1>(arguments, sorted, begins);
    }
  }

 private:
  template <int kColumns>
  void sum(const KernelArguments& arguments, const std::int64_t* sorted, const std::int64_t* begins) const {
    const std::int64_t columns = table_.row_length / kColumns, count = table_.num_rows * columns;
    gpu::launch_each(arguments.queue, count,
                     SumRows<T, kColumns>{keys_, static_cast<const T*>(arguments.inputs[0]), sorted, begins,
                                          static_cast<T*>(arguments.outputs[0]), columns, is_small(count)});
  }

  GatherTable table_;
  Keys keys_;
  std::size_t keys_at_[2] = {};
  std::size_t begins_at_ = 0;
};

template <class T, class Index>
std::unique_ptr<Kernel> make_gather_grad_of(const KernelRequest& request) {
  WorkspaceLayout workspace;
  const RowSums<T, Index> sums(GatherTable(request.outputs[0].shape), request.inputs[1].shape.num_elements(),
                               workspace);
  return function_kernel(sums, {.workspace_bytes = workspace.num_bytes()});
}

/// The kernels as words that threads move, and as sums of rows that are sorted by index.
struct SortedGathers {
  template <class T, class Index>
  static std::unique_ptr<Kernel> gather(const KernelRequest& request) {
    const std::int64_t row_bytes =
        GatherTable(request.inputs[0].shape).row_length * static_cast<std::int64_t>(sizeof(T));
    static_assert(sizeof(T) == sizeof(WordLike<T>));
    if (row_bytes % static_cast<std::int64_t>(sizeof(LongWord)) == 0)
      return make_gather_by<T, LongWord, Index>(request);
    return make_gather_by<T, WordLike<T>, Index>(request);
  }
  template <class Index>
  static std::unique_ptr<Kernel> gather_grad(const KernelRequest& request) {
    return with_stored_type(request.outputs[0].dtype,
                            [&](auto element) { return make_gather_grad_of<decltype(element), Index>(request); });
  }
};

template <class Index>
struct OneHot {
  const Index* indices;  // [N]
  float* y;              // [N, depth]
  gpu::Divisor depth;
  float on_value, off_value;

  SF_HOST_DEVICE void operator()(std::int64_t i) const {
    std::int64_t row = i;
    const std::int64_t column = depth.cut(row);
    y[i] = static_cast<std::int64_t>(indices[row]) == column ? on_value : off_value;
  }
};

template <class Index>
std::unique_ptr<Kernel> make_one_hot_of(const KernelRequest& request) {
  return function_kernel([count = request.outputs[0].shape.num_elements(),
                          options = request.node.options<OneHotOptions>()](const KernelArguments& arguments) {
    gpu::launch_each(
        arguments.queue, count,
        OneHot<Index>{static_cast<const Index*>(arguments.inputs[0]), static_cast<float*>(arguments.outputs[0]),
                      gpu::Divisor(options.depth), options.on_value, options.off_value});
  });
}

std::unique_ptr<Kernel> make_one_hot(const KernelRequest& request) {
  return request.inputs[0].dtype == Dtype::i32 ? make_one_hot_of<std::int32_t>(request)
                                               : make_one_hot_of<std::int64_t>(request);
}

/// A number that is larger for the element that is rather the result: by value, NaN above all, then by the lower
/// index. 0 stands below all of them.
SF_HOST_DEVICE std::uint64_t rank_of(float x, std::int64_t index) {
  const auto bits = std::bit_cast<std::uint32_t>(x == 0.0F ? 0.0F : x);  // zeros of both signs are equal
  // Bits of positive numbers are ordered as these are; those of negative ones the other way round.
  const std::uint32_t ordered = (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
  const std::uint32_t value = x != x ? 0xFFFFFFFFU : ordered;
  return (static_cast<std::uint64_t>(value) << 32) | (0xFFFFFFFFU - static_cast<std::uint32_t>(index));
}

/// A group of threads a row.
template <class T>
struct ArgmaxRows {
  const T* x;       // [N, C]
  std::int32_t* y;  // [N]
  std::int64_t num_rows, num_classes;
  int group;

  template <class Thread>
  SF_HOST_DEVICE void operator()(Thread& thread) const {
    const std::int64_t row = thread.block() * (thread.block_size() / group) + thread.index() / group;
    const int lane = thread.index() % group;
    std::uint64_t best = 0;
    for (std::int64_t c = lane; row < num_rows && c < num_classes; c += group) {
      best = gpu::Larger()(best, rank_of(x[row * num_classes + c], c));
    }
    best = gpu::group_reduce(thread, best, group, 0, gpu::Larger());
    if (lane == 0 && row < num_rows) {
      y[row] = static_cast<std::int32_t>(0xFFFFFFFFU - static_cast<std::uint32_t>(best));
    }
  }
};

std::unique_ptr<Kernel> make_argmax(const KernelRequest& request) {
  constexpr int kThreads = 256;
  const std::int64_t num_rows = request.outputs[0].shape.num_elements();
  const std::int64_t num_classes = request.inputs[0].shape[-1];
  const int group = gpu::group_for(num_classes, kThreads);
  return with_stored_type(request.inputs[0].dtype, [=](auto element) -> std::unique_ptr<Kernel> {
    using T = decltype(element);
    return function_kernel([=](const KernelArguments& arguments) {
      gpu::launch_blocks(arguments.queue,
                         {.blocks = gpu::blocks_for(num_rows, kThreads / group),
                          .threads = kThreads,
                          .shared_bytes = gpu::reduce_bytes<std::uint64_t>()},
                         ArgmaxRows<T>{static_cast<const T*>(arguments.inputs[0]),
                                       static_cast<std::int32_t*>(arguments.outputs[0]), num_rows, num_classes, group});
    });
  });
}

}  // namespace

void add_indexing_cuda_kernels(KernelRegistry& registry) {
  GatherFamily<SortedGathers>::add_to(registry);
  registry.add("one_hot", make_one_hot);
  registry.add("argmax", make_argmax, Bf16::native);
}

}  // namespace sectionflow
