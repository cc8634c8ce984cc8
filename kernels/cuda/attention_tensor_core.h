#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/attention_geometry.h"
#include "kernels/cuda/tensor_core.h"

/// Attention on tensor cores with heads of up to 128 channels, in eights. `Factors` are those of bf16 (Bf16Factors) or,
/// with f32 in memory and heads of up to 64 channels, of TF32 (Tf32Factors). Sums, exponentials and what they are
/// shifted by are f32; probabilities and their gradients are rounded where they are factors of a second product. A
/// block of four warps owns 64 rows of a head, queries or keys, of which each warp has 16 in registers; it goes through
/// tiles of the other kind, two tensors' at a time, in shared memory. Channels up to kColumns are 0.
///
/// Source: Dao 2023, FlashAttention-2. The gradients of queries and of keys have a kernel each, so that each block adds
/// up what it alone writes.
namespace sectionflow::gpu::attention_tensor_core {

inline constexpr int kRowsOfWarp = 16, kWarps = 4, kThreads = kWarps * kWarp, kRowsOfBlock = kWarps * kRowsOfWarp;
inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
inline constexpr float kLog2E = 1.44269504F;

/// Whether these kernels compute it. The largest score must have the largest exponential, and scaled it is what others
/// are shifted by: a scale must be above 0, and 0 times infinity must not come up.
inline bool serves(const AttentionGeometry& g) {
  return g.width % 8 == 0 && g.width <= 128 && g.scale > 0 && std::isnormal(g.scale * kLog2E) &&
         g.queries < (1 << 30) && g.keys < (1 << 30);
}

/// What lanes hold of sums or products of a warp's 16 rows: of 8 columns each.
using Sums = float[4];
/// The two rows of a lane are row and row + 8, counted from the warp's first.
template <class Thread>
SF_HOST_DEVICE int row_of(Thread& thread) {
  return lane_of(thread) / 4;
}
/// Of each 8 columns a lane has two.
template <class Thread>
SF_HOST_DEVICE int column_of(Thread& thread) {
  return lane_of(thread) % 4 * 2;
}

/// Where a warp is: a head, and the first of its 16 rows, and of the 64 of its block.
struct Place {
  std::int64_t head;
  int of_block, of_warp;
};
template <class Thread>
SF_HOST_DEVICE Place place_of(Thread& thread, std::int64_t heads, int num_rows, bool from_end) {
  const int tile = static_cast<int>(thread.block() / heads), tiles = (num_rows + kRowsOfBlock - 1) / kRowsOfBlock;
  const int first = (from_end ? tiles - 1 - tile : tile) * kRowsOfBlock;
  return {thread.block() % heads, first, first + thread.index() / kWarp * kRowsOfWarp};
}
inline LaunchShape shape_of(std::int64_t heads, std::int64_t rows, int shared_bytes) {
  return {.blocks = heads * ((rows + kRowsOfBlock - 1) / kRowsOfBlock),
          .threads = kThreads,
          .shared_bytes = static_cast<std::size_t>(shared_bytes)};
}

/// Two tensors' tiles of the same rows of a head; where there are two buffers, the next are on their way.
template <class TileOfBoth, int kBuffers>
struct Stream {
  using Tile = TileOfBoth;
  static constexpr int kBytes = 2 * kBuffers * Tile::kBytes, kRows = Tile::kRows;
  const typename Tile::Stored *first, *second;  // of the head
  int num_rows, width;
  int offset;  // in shared memory

  SF_HOST_DEVICE Tile tile(int number, int of_second) const {
    return {offset + (number % kBuffers * 2 + of_second) * Tile::kBytes};
  }
  template <class Thread>
  SF_HOST_DEVICE void copy(Thread& thread, int number, int row) const {
    const std::int64_t at = static_cast<std::int64_t>(row) * width;
    tile(number, 0).template copy<kThreads>(thread, first + at, num_rows - row, width);
    tile(number, 1).template copy<kThreads>(thread, second + at, num_rows - row, width);
  }
  /// body(row, tile of the first, of the second) for each tile of rows in [begin, end); begin: a multiple of kRows.
  template <class Thread, class Body>
  SF_HOST_DEVICE void for_each(Thread& thread, int begin, int end, const Body& body) const {
    if (begin < end) copy(thread, 0, begin);
    int number = 0;
    for (int row = begin; row < end; row += kRows, ++number) {
      finish_copies();
      tile(number, 0).template finish<kThreads>(thread);
      tile(number, 1).template finish<kThreads>(thread);
      thread.barrier();  // this tile is there, and the one before is read no more
      if (kBuffers == 2 && row + kRows < end) copy(thread, number + 1, row + kRows);
      body(row, tile(number, 0), tile(number, 1));
      if (kBuffers == 1 && row + kRows < end) {
        thread.barrier();
        copy(thread, number + 1, row + kRows);
      }
    }
  }
};

/// The fragments of a warp's rows of a head, 0 beyond the last.
template <class Factors, int kColumns>
struct HeldRows {
  typename Factors::Left fragments[kColumns / 16];

  template <class Thread>
  SF_HOST_DEVICE HeldRows(Thread& thread, const typename Factors::Stored* head, int first_row, int num_rows,
                          int width) {
    SF_UNROLL
    for (int step = 0; step < kColumns / 16; ++step)
      fragments[step] = Factors::load_left(thread, head, first_row, num_rows, 16 * step, width);
  }
  SF_HOST_DEVICE const typename Factors::Left& operator()(int step) const { return fragments[step]; }
};

/// products = a warp's rows, whose fragments `left(step)` gives, times the rows of the tile.
template <class Factors, class Thread, class Left, class Tile>
SF_HOST_DEVICE void multiply_rows(Thread& thread, const Left& left, const Tile& tile,
                                  Sums (&products)[Tile::kRows / 8]) {
  SF_UNROLL
  for (Sums& sums : products) {
    SF_UNROLL
    for (float& sum : sums) sum = 0;
  }
  SF_UNROLL
  for (int step = 0; step < Tile::kColumns / 16; ++step) {
    const typename Factors::Left of_left = left(step);
    SF_UNROLL
    for (int two = 0; two < Tile::kRows / 16; ++two) {
      typename Factors::Right rights[2];
      tile.rights_of_rows(thread, 16 * two, 16 * step, rights);
      add_product(thread, of_left, rights[0], products[2 * two]);
      add_product(thread, of_left, rights[1], products[2 * two + 1]);
    }
  }
}

/// sums += weights, rounded to factors, times the tile.
template <class Factors, class Thread, class Tile>
SF_HOST_DEVICE void add_weighted_rows(Thread& thread, const Sums (&weights)[Tile::kRows / 8], const Tile& tile,
                                      Sums (&sums)[Tile::kColumns / 8]) {
  SF_UNROLL
  for (int step = 0; step < Tile::kRows / 16; ++step) {
    const typename Factors::Left left = Factors::left_of(weights[2 * step], weights[2 * step + 1]);
    SF_UNROLL
    for (int two = 0; two < Tile::kColumns / 16; ++two) {
      typename Factors::Right rights[2];
      tile.rights_of_columns(thread, 16 * step, 16 * two, rights);
      add_product(thread, left, rights[0], sums[2 * two]);
      add_product(thread, left, rights[1], sums[2 * two + 1]);
    }
  }
}

/// Writes a warp's sums, each of a lane's rows times its factor, to their places in a head.
template <class Factors, class Thread, int kEights>
SF_HOST_DEVICE void write_rows(Thread& thread, const Sums (&sums)[kEights], float factor, float factor_of_second,
                               typename Factors::Stored* head, int first_row, int num_rows, int width) {
  SF_UNROLL
  for (int half = 0; half < 2; ++half) {
    const int row = first_row + row_of(thread) + 8 * half;
    if (row >= num_rows) continue;
    const float by = half == 0 ? factor : factor_of_second;
    SF_UNROLL
    for (int eight = 0; eight < kEights; ++eight) {
      if (8 * eight >= width) continue;
      Factors::store_pair(head + static_cast<std::int64_t>(row) * width + 8 * eight + column_of(thread),
                          sums[eight][2 * half] * by, sums[eight][2 * half + 1] * by);
    }
  }
}

/// Gives the four lanes of each row `combine` over their values: the same bits, as it does not mind the order of two.
template <class Thread, class Combine>
SF_HOST_DEVICE float combine_lanes(Thread& thread, float value, const Combine& combine) {
  value = combine(value, thread.template shuffle_xor<float>(value, 1));
  return combine(value, thread.template shuffle_xor<float>(value, 2));
}
struct Add {
  SF_HOST_DEVICE float operator()(float a, float b) const { return a + b; }
};
struct Larger {
  SF_HOST_DEVICE float operator()(float a, float b) const { return fmaxf(a, b); }
};

/// How many keys some of `count` queries see; none of them sees more than count - 1 fewer.
SF_HOST_DEVICE inline int seen_by(const AttentionGeometry& g, int first_query, int count) {
  if (first_query >= g.queries) return 0;
  const std::int64_t last = first_query + count < g.queries ? first_query + count - 1 : g.queries - 1;
  return static_cast<int>(g.keys_of(last, g.keys));
}

/// Scores of keys that a query does not see, or that are not there, become -infinity.
template <class Thread, int kEights>
SF_HOST_DEVICE void hide_keys(Thread& thread, const AttentionGeometry& g, int first_query, int first_key,
                              Sums (&scores)[kEights]) {
  SF_UNROLL
  for (int half = 0; half < 2; ++half) {
    const int seen =
        static_cast<int>(g.keys_of(first_query + row_of(thread) + 8 * half, g.keys)) - first_key - column_of(thread);
    SF_UNROLL
    for (int eight = 0; eight < kEights; ++eight) {
      SF_UNROLL
      for (int i = 0; i < 2; ++i)
        if (8 * eight + i >= seen) scores[eight][2 * half + i] = -kInfinity;
    }
  }
}

/// y of queries and, but for a replay, the logarithms of their sums.
template <class Factors, int kColumns>
struct Attend {
  using Stored = typename Factors::Stored;
  static constexpr int kKeys = 8192 / static_cast<int>(kColumns * sizeof(Stored));
  using Keys = Stream<typename Factors::template Tile<kKeys, kColumns>, 2>;
  AttentionGeometry g;
  const Stored *q, *k, *v;
  Stored* y;
  float* log_sums;
  bool has_log_sums;

  template <class Thread>
  SF_HOST_DEVICE void operator()(Thread& thread) const {
    const int queries = static_cast<int>(g.queries), keys = static_cast<int>(g.keys), width = static_cast<int>(g.width);
    // With `causal` the last queries see the most: they begin first.
    const Place place = place_of(thread, g.heads, queries, true);
    const Stored* of_head = q + place.head * queries * width;
    const HeldRows<Factors, kColumns> rows(thread, of_head, place.of_warp, queries, width);
    const float scale_of_two = g.scale * kLog2E;
    float most[2] = {-kInfinity, -kInfinity}, total[2] = {0, 0};
    Sums sums[kColumns / 8] = {};
    const int seen = seen_by(g, place.of_warp, kRowsOfWarp);
    const auto add_tile = [&](int first_key, const auto& of_keys, const auto& of_values) {
      if (first_key >= seen) return;
      Sums scores[kKeys / 8];
      multiply_rows<Factors>(thread, rows, of_keys, scores);
      if (first_key + kKeys > seen - kRowsOfWarp + 1) hide_keys(thread, g, place.of_warp, first_key, scores);
      exponentials(thread, scale_of_two, scores, most, total, sums);
      add_weighted_rows<Factors>(thread, scores, of_values, sums);
    };
    const std::int64_t from = place.head / g.group * keys * width;
    const Keys stream{k + from, v + from, keys, width, 0};
    stream.for_each(thread, 0, seen_by(g, place.of_block, kRowsOfBlock), add_tile);
    for (float& of_row : total) of_row = combine_lanes(thread, of_row, Add());
    write_rows<Factors>(thread, sums, 1.0F / total[0], 1.0F / total[1], y + place.head * queries * width, place.of_warp,
                        queries, width);
    if (has_log_sums || column_of(thread) > 0) return;
    SF_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int query = place.of_warp + row_of(thread) + 8 * half;
      if (query < queries) log_sums[place.head * queries + query] = fmaf(most[half], g.scale, std::log(total[half]));
    }
  }

 private:
  /// scores = exp(scale (scores - the largest so far)); sums and totals of before are taken to the new largest.
  template <class Thread>
  SF_HOST_DEVICE static void exponentials(Thread& thread, float scale_of_two, Sums (&scores)[kKeys / 8],
                                          float (&most)[2], float (&total)[2], Sums (&sums)[kColumns / 8]) {
    SF_UNROLL
    for (int half = 0; half < 2; ++half) {
      float largest = most[half];
      SF_UNROLL
      for (const Sums& of_eight : scores) largest = fmaxf(largest, fmaxf(of_eight[2 * half], of_eight[2 * half + 1]));
      largest = combine_lanes(thread, largest, Larger());
      const float shift = largest == -kInfinity ? 0.0F : largest * scale_of_two;
      const float rescale = fast_exp2(fmaf(most[half], scale_of_two, -shift));
      most[half] = largest;
      float added = 0;
      SF_UNROLL
      for (Sums& of_eight : scores) {
        SF_UNROLL
        for (int i = 2 * half; i < 2 * half + 2; ++i) {
          of_eight[i] = fast_exp2(fmaf(of_eight[i], scale_of_two, -shift));  // 0 of -infinity
          added += of_eight[i];
        }
      }
      total[half] = fmaf(total[half], rescale, added);
      SF_UNROLL
      for (Sums& of_eight : sums) {
        of_eight[2 * half] *= rescale;
        of_eight[2 * half + 1] *= rescale;
      }
    }
  }
};

template <class Factors, int kColumns>
void attend(const AttentionGeometry& g, bool has_log_sums, const KernelArguments& arguments) {
  using Body = Attend<Factors, kColumns>;
  using Stored = typename Factors::Stored;
  const auto input = [&](int index) { return static_cast<const Stored*>(arguments.inputs[index]); };
  launch_blocks(arguments.queue, shape_of(g.heads, g.queries, Body::Keys::kBytes),
                Body{g, input(0), input(1), input(2), static_cast<Stored*>(arguments.outputs[0]),
                     static_cast<float*>(arguments.outputs[1]), has_log_sums});
}

}  // namespace sectionflow::gpu::attention_tensor_core
