#pragma once

#include <bit>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/error.h"
#include "kernels/cuda/elements.h"
#include "kernels/cuda/launch.h"
#include "kernels/formulas/scatter.h"
#include "kernels/function_kernel.h"

namespace sectionflow::gpu {

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
inline bool is_small(std::int64_t count) {
  return count <= 0xFFFFFFFFLL;
}

// The indices are sorted, each with its place, and the rows that belong to one row of the table are combined in that
// order. All keys differ, so that there is one order however they are sorted.

/// Indices with their places, as numbers that sort first by index: index << place_bits | place. Those outside of the
/// table count as the one behind its last row.
struct Keys {
  Keys(const GatherTable& table, std::int64_t num_indices)
      : num_rows(table.num_rows),
        count(num_indices),
        place_bits(std::bit_width(static_cast<std::uint64_t>(num_indices))) {
    SF_CHECK(std::bit_width(static_cast<std::uint64_t>(num_rows)) + place_bits <= 63, ArgumentError,
             "rows by index: ", num_indices, " indices into a table of ", num_rows,
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

/// y[row] = what x has there, combined with its rows in the order of their places; `kColumns` columns a thread.
template <class Combine, class T, int kColumns>
struct CombineRows {
  Keys keys;
  const T *x, *rows;
  const std::int64_t *sorted, *begins;
  T* y;
  std::int64_t columns;  // row_length / kColumns
  bool is_small;

  using Part = Pack<T, kColumns>;
  static constexpr int kAtATime = 4;  // loads in flight, which are then taken in their order

  SF_HOST_DEVICE void operator()(std::int64_t i) const {
    const RowAndColumn at(i, columns, is_small);
    const T* first = rows + at.column * kColumns;
    const auto load = [&](std::int64_t key) {
      return load_pack<kColumns>(first + keys.place(key) * columns * kColumns);
    };
    float combined[kColumns] = {};
    if (x != nullptr) {
      const Part begun = load_pack<kColumns>(x + i * kColumns);
      for (int c = 0; c < kColumns; ++c) combined[c] = static_cast<float>(begun.values[c]);
    }
    std::int64_t k = begins[at.row];
    const std::int64_t end = begins[at.row + 1];
    for (; k + kAtATime <= end; k += kAtATime) {
      Part next[kAtATime];
      for (int ahead = 0; ahead < kAtATime; ++ahead) next[ahead] = load(sorted[k + ahead]);
      for (int ahead = 0; ahead < kAtATime; ++ahead) combine(combined, next[ahead]);
    }
    for (; k < end; ++k) combine(combined, load(sorted[k]));
    Part rounded;
    for (int c = 0; c < kColumns; ++c) rounded.values[c] = static_cast<T>(combined[c]);
    store_pack(y + i * kColumns, rounded);
  }
  SF_HOST_DEVICE static void combine(float (&combined)[kColumns], const Part& part) {
    for (int c = 0; c < kColumns; ++c) combined[c] = Combine::combine(combined[c], static_cast<float>(part.values[c]));
  }
};

/// The launches that sort and combine.
template <class Combine, class T, class Index>
class RowCombiner {
 public:
  RowCombiner(const GatherTable& table, std::int64_t num_indices, WorkspaceLayout& workspace)
      : table_(table), keys_(table, num_indices) {
    for (std::size_t& at : keys_at_) at = workspace.add(static_cast<std::size_t>(num_indices) * sizeof(std::int64_t));
    begins_at_ = workspace.add(static_cast<std::size_t>(table.num_rows + 1) * sizeof(std::int64_t));
  }

  void launch(const KernelArguments& arguments, const CombinedRows<T, Index>& from) const {
    const auto part = [&](std::size_t at) {
      return static_cast<std::int64_t*>(workspace_part(arguments.workspace, at));
    };
    const std::int64_t count = keys_.count;
    std::int64_t *sorted = part(keys_at_[0]), *other = part(keys_at_[1]), *begins = part(begins_at_);
    launch_each(arguments.queue, count, SortRuns<Index>{keys_, from.indices, sorted});
    for (std::int64_t run = SortRuns<Index>::kRun; run < count; run *= 2) {
      launch_each(arguments.queue, count, MergeRuns{sorted, other, count, run});
      std::swap(sorted, other);
    }
    launch_each(arguments.queue, table_.num_rows + 1, FindRows{keys_, sorted, begins});
    if (table_.row_length % 4 == 0) {
      combine<4>(arguments, from, sorted, begins);
    } else {
      combine<1>(arguments, from, sorted, begins);
    }
  }

 private:
  template <int kColumns>
  void combine(const KernelArguments& arguments, const CombinedRows<T, Index>& from, const std::int64_t* sorted,
               const std::int64_t* begins) const {
    const std::int64_t columns = table_.row_length / kColumns, count = table_.num_rows * columns;
    launch_each(arguments.queue, count,
                CombineRows<Combine, T, kColumns>{keys_, from.x, from.rows, sorted, begins,
                                                  static_cast<T*>(arguments.outputs[0]), columns, is_small(count)});
  }

  GatherTable table_;
  Keys keys_;
  std::size_t keys_at_[2] = {};
  std::size_t begins_at_ = 0;
};

/// Rows combined behind a sort, see make_combined_rows.
struct SortedRows {
  template <class Combine, class T, class Index, class From>
  static std::unique_ptr<Kernel> combined(const GatherTable& table, std::int64_t num_indices, const From& from,
                                          std::vector<InPlace> in_place) {
    WorkspaceLayout workspace;
    const RowCombiner<Combine, T, Index> combiner(table, num_indices, workspace);
    return function_kernel(
        [combiner, from](const KernelArguments& arguments) { combiner.launch(arguments, from(arguments)); },
        {.workspace_bytes = workspace.num_bytes(), .in_place = std::move(in_place)});
  }
};

}  // namespace sectionflow::gpu
